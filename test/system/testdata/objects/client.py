"""boto3, unmodified, against the server that the environment names.

Each fact that is true is printed; a test compares the list."""
import datetime
import io
import os
import urllib.request

import boto3
from boto3.s3.transfer import TransferConfig
from botocore.config import Config
from botocore.exceptions import ClientError

c = boto3.client("s3", config=Config(s3={"addressing_style": "path"}, signature_version="s3v4"))
bucket, key = os.environ["BUCKET"], "doc ü.txt"


def fact(name, yes):
    print(f"{name}: {str(bool(yes)).lower()}")


def code(call, **args):
    try:
        call(**args)
        return "none"
    except ClientError as e:
        return e.response["Error"]["Code"]


def read(**args):
    return c.get_object(Bucket=bucket, **args)["Body"].read()


c.create_bucket(Bucket=bucket)
one = c.put_object(Bucket=bucket, Key=key, Body=b"one", Metadata={"by": "py"}, Tagging="state=draft")["VersionId"]
c.put_object(Bucket=bucket, Key=key, Body=b"two")
old = c.get_object(Bucket=bucket, Key=key, VersionId=one)
fact("an old version is read", old["Body"].read() == b"one" and old["Metadata"]["by"] == "py")
fact("versions are listed", len(c.list_object_versions(Bucket=bucket)["Versions"]) == 2)

c.put_object_tagging(Bucket=bucket, Key=key, Tagging={"TagSet": [{"Key": "state", "Value": "final"}]})
new, before = (c.get_object_tagging(Bucket=bucket, Key=key, **v)["TagSet"] for v in ({}, {"VersionId": one}))
fact("tags are of a version", new[0]["Value"] == "final" and before[0]["Value"] == "draft")

until = datetime.datetime.now(datetime.timezone.utc) + datetime.timedelta(hours=1)
c.put_object_retention(Bucket=bucket, Key=key, VersionId=one, Retention={"Mode": "GOVERNANCE", "RetainUntilDate": until})
fact("a retention is read back", c.get_object_retention(Bucket=bucket, Key=key, VersionId=one)["Retention"]["Mode"] == "GOVERNANCE")
fact("a retained version is not removed", code(c.delete_object, Bucket=bucket, Key=key, VersionId=one) == "AccessDenied")
fact("its owner overrides governance", code(c.delete_object, Bucket=bucket, Key=key, VersionId=one, BypassGovernanceRetention=True) == "none")

get = c.generate_presigned_url("get_object", Params={"Bucket": bucket, "Key": key}, ExpiresIn=60)
fact("a signed link reads", urllib.request.urlopen(get).read() == b"two")
put = c.generate_presigned_url("put_object", Params={"Bucket": bucket, "Key": "put.txt"}, ExpiresIn=60)
urllib.request.urlopen(urllib.request.Request(put, data=b"by link", method="PUT", headers={"Content-Type": ""}))
fact("a signed link writes", read(Key="put.txt") == b"by link")
try:
    urllib.request.urlopen(get.replace("doc", "duc"))
    status = 200
except urllib.error.HTTPError as e:
    status = e.code
fact("an edited link does not", status == 403)

big = os.urandom(12 << 20)
c.upload_fileobj(io.BytesIO(big), bucket, "big", Config=TransferConfig(multipart_threshold=5 << 20, multipart_chunksize=5 << 20))
fact("a multipart upload has its bytes", read(Key="big") == big)
fact("a range over two parts has its bytes", read(Key="big", Range="bytes=5242870-5242889") == big[5242870:5242890])
fact("a second first write is refused", code(c.put_object, Bucket=bucket, Key="big", Body=b"x", IfNoneMatch="*") == "PreconditionFailed")
fact("another bucket is not seen", code(c.get_object, Bucket="of-another", Key="x") == "NoSuchBucket")
