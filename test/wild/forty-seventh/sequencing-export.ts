import Redis from 'ioredis';
import { GetObjectCommand, NoSuchKey, PutObjectCommand, S3Client } from '@aws-sdk/client-s3';
import pino from 'pino';
import { randomBytes } from 'node:crypto';
import { convertToCram, listFinishedSamples, type Sample } from '../pipeline/samples';

const log = pino({ name: 'sequencing-export' });
const redis = new Redis(process.env.REDIS_URL!);
const s3 = new S3Client({ region: process.env.AWS_REGION });
const Bucket = process.env.STUDY_BUCKET!;

const LEASE_MS = 45_000;
const HEARTBEAT_MS = 10_000;

const EXTEND = `
if redis.call('get', KEYS[1]) == ARGV[1] then
  return redis.call('pexpire', KEYS[1], ARGV[2])
end
return 0`;

const RELEASE = `
if redis.call('get', KEYS[1]) == ARGV[1] then
  return redis.call('del', KEYS[1])
end
return 0`;

interface Manifest {
  studyId: string;
  files: { sampleId: string; key: string; md5: string }[];
}

async function withStudyLease<T>(studyId: string, fn: () => Promise<T>): Promise<T | undefined> {
  const key = `lease:study-export:${studyId}`;
  const token = randomBytes(16).toString('hex');

  const reply = await redis.set(key, token, 'PX', LEASE_MS, 'NX');
  if (reply !== 'OK') {
    log.info({ studyId }, 'export already running');
    return undefined;
  }

  const heartbeat = setInterval(async () => {
    try {
      const result = await redis.eval(EXTEND, 1, key, token, LEASE_MS);
      log.debug({ studyId, result }, 'heartbeat');
    } catch (err) {
      log.warn({ err, studyId }, 'heartbeat failed');
    }
  }, HEARTBEAT_MS);

  try {
    return await fn();
  } finally {
    clearInterval(heartbeat);
    await redis.eval(RELEASE, 1, key, token).catch((err) => log.warn({ err, studyId }, 'release failed'));
  }
}

async function readManifest(studyId: string): Promise<Manifest> {
  try {
    const res = await s3.send(new GetObjectCommand({ Bucket, Key: `${studyId}/manifest.json` }));
    return JSON.parse(await res.Body!.transformToString());
  } catch (err) {
    if (err instanceof NoSuchKey) return { studyId, files: [] };
    throw err;
  }
}

async function writeManifest(manifest: Manifest) {
  await s3.send(
    new PutObjectCommand({
      Bucket,
      Key: `${manifest.studyId}/manifest.json`,
      Body: JSON.stringify(manifest, null, 2),
      ContentType: 'application/json',
    }),
  );
}

async function exportSample(studyId: string, sample: Sample) {
  const { body, md5 } = await convertToCram(sample);
  const key = `${studyId}/cram/${sample.id}.cram`;
  await s3.send(new PutObjectCommand({ Bucket, Key: key, Body: body }));
  return { sampleId: sample.id, key, md5 };
}

export async function exportStudy(studyId: string) {
  return withStudyLease(studyId, async () => {
    const manifest = await readManifest(studyId);
    const known = new Set(manifest.files.map((f) => f.sampleId));
    const samples = (await listFinishedSamples(studyId)).filter((s) => !known.has(s.id));

    // a sample takes 5 to 15 minutes
    for (const sample of samples) {
      manifest.files.push(await exportSample(studyId, sample));
      await writeManifest(manifest);
      log.info({ studyId, sample: sample.id }, 'sample exported');
    }
    return manifest.files.length;
  });
}
