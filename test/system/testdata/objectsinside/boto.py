# What boto3 in a guest finds true. The argument is the digest of s3://data/in/big.
import hashlib
import io
import os
import sys

import boto3
from boto3.s3.transfer import TransferConfig
from botocore.exceptions import ClientError

s3 = boto3.client("s3")
config = TransferConfig(multipart_threshold=6 << 20, multipart_chunksize=6 << 20, max_concurrency=4)
s3.download_file("data", "in/big", "/tmp/big", Config=config)
with open("/tmp/big", "rb") as f:
    assert hashlib.sha256(f.read()).hexdigest() == sys.argv[1], "the download has other bytes"
s3.upload_file("/tmp/big", "data", "out/big", Config=config, ExtraArgs={"ChecksumAlgorithm": "SHA256"})
for algorithm in ("CRC32", "SHA1", "SHA256"):
    s3.put_object(Bucket="data", Key="out/ü +" + algorithm, Body=io.BytesIO(b"x" * 100000), ChecksumAlgorithm=algorithm, Metadata={"by": "boto3"})
    got = s3.get_object(Bucket="data", Key="out/ü +" + algorithm, ChecksumMode="ENABLED")
    assert got["Body"].read() == b"x" * 100000, "an object has other bytes"
    assert got["Metadata"] == {"by": "boto3"}, got["Metadata"]
keys = [o["Key"] for o in s3.list_objects_v2(Bucket="data", Prefix="out/ü")["Contents"]]
assert keys == ["out/ü +" + a for a in ("CRC32", "SHA1", "SHA256")], keys
s3.delete_objects(Bucket="data", Delete={"Objects": [{"Key": k} for k in keys]})
assert "Contents" not in s3.list_objects_v2(Bucket="data", Prefix="out/ü"), "removed objects are listed"
for bucket, want in (("theirs", "AccessDenied"), ("nobodys", "NoSuchBucket")):
    try:
        s3.get_object(Bucket=bucket, Key="in/hello.txt")
        raise SystemExit(bucket + " is read")
    except ClientError as e:
        assert e.response["Error"]["Code"] == want, e
link = s3.generate_presigned_url("get_object", Params={"Bucket": "data", "Key": "in/hello.txt"})
if link.startswith("http:"):
    import urllib.request
    assert urllib.request.urlopen(link).read() == b"hello from data\n"
print("done")
