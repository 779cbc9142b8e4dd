// The AWS SDK for JavaScript, unmodified, against the server that the environment names.
// Each fact that is true is printed; a test compares the list.
import { randomBytes } from 'node:crypto'
import * as s3 from '@aws-sdk/client-s3'
import { Upload } from '@aws-sdk/lib-storage'
import { getSignedUrl } from '@aws-sdk/s3-request-presigner'

const c = new s3.S3Client({ forcePathStyle: true })
const Bucket = process.env.BUCKET
const fact = (name, yes) => console.log(`${name}: ${yes}`)
const text = async (o) => (await o.Body.transformToString())
const code = async (p) => p.then(() => 'none', (e) => e.name)

await c.send(new s3.CreateBucketCommand({ Bucket }))
const one = await c.send(new s3.PutObjectCommand({ Bucket, Key: 'doc ü.txt', Body: 'one', Metadata: { by: 'js' }, Tagging: 'state=draft' }))
await c.send(new s3.PutObjectCommand({ Bucket, Key: 'doc ü.txt', Body: 'two' }))
const old = await c.send(new s3.GetObjectCommand({ Bucket, Key: 'doc ü.txt', VersionId: one.VersionId }))
fact('an old version is read', await text(old) === 'one' && old.Metadata.by === 'js')
fact('versions are listed', (await c.send(new s3.ListObjectVersionsCommand({ Bucket }))).Versions.length === 2)

await c.send(new s3.PutObjectTaggingCommand({ Bucket, Key: 'doc ü.txt', Tagging: { TagSet: [{ Key: 'state', Value: 'final' }] } }))
const tags = (await c.send(new s3.GetObjectTaggingCommand({ Bucket, Key: 'doc ü.txt' }))).TagSet
const before = (await c.send(new s3.GetObjectTaggingCommand({ Bucket, Key: 'doc ü.txt', VersionId: one.VersionId }))).TagSet
fact('tags are of a version', tags[0].Value === 'final' && before[0].Value === 'draft')

const RetainUntilDate = new Date(Date.now() + 3600e3)
await c.send(new s3.PutObjectRetentionCommand({ Bucket, Key: 'doc ü.txt', VersionId: one.VersionId, Retention: { Mode: 'GOVERNANCE', RetainUntilDate } }))
const kept = await c.send(new s3.GetObjectRetentionCommand({ Bucket, Key: 'doc ü.txt', VersionId: one.VersionId }))
fact('a retention is read back', kept.Retention.Mode === 'GOVERNANCE')
fact('a retained version is not removed', await code(c.send(new s3.DeleteObjectCommand({ Bucket, Key: 'doc ü.txt', VersionId: one.VersionId }))) === 'AccessDenied')
fact('its owner overrides governance', await code(c.send(new s3.DeleteObjectCommand({ Bucket, Key: 'doc ü.txt', VersionId: one.VersionId, BypassGovernanceRetention: true }))) === 'none')

const get = await getSignedUrl(c, new s3.GetObjectCommand({ Bucket, Key: 'doc ü.txt' }), { expiresIn: 60 })
fact('a signed link reads', await (await fetch(get)).text() === 'two')
const put = await getSignedUrl(c, new s3.PutObjectCommand({ Bucket, Key: 'put.txt' }), { expiresIn: 60 })
fact('a signed link writes', (await fetch(put, { method: 'PUT', body: 'by link' })).status === 200 && await text(await c.send(new s3.GetObjectCommand({ Bucket, Key: 'put.txt' }))) === 'by link')
fact('an edited link does not', (await fetch(get.replace('doc', 'duc'))).status === 403)

const big = randomBytes(12 << 20)
await new Upload({ client: c, params: { Bucket, Key: 'big', Body: big }, partSize: 5 << 20, queueSize: 2 }).done()
const back = Buffer.from(await (await c.send(new s3.GetObjectCommand({ Bucket, Key: 'big' }))).Body.transformToByteArray())
fact('a multipart upload has its bytes', back.equals(big))
const range = await c.send(new s3.GetObjectCommand({ Bucket, Key: 'big', Range: 'bytes=5242870-5242889' }))
fact('a range over two parts has its bytes', Buffer.from(await range.Body.transformToByteArray()).equals(big.subarray(5242870, 5242890)))
fact('a second first write is refused', await code(c.send(new s3.PutObjectCommand({ Bucket, Key: 'big', Body: 'x', IfNoneMatch: '*' }))) === 'PreconditionFailed')
fact('another bucket is not seen', await code(c.send(new s3.GetObjectCommand({ Bucket: 'of-another', Key: 'x' }))) === 'NoSuchBucket')
