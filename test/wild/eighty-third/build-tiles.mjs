import { randomUUID } from 'node:crypto';
import { createClient } from 'redis';
import { S3Client, PutObjectCommand } from '@aws-sdk/client-s3';
import { features, markBuilt } from './db.js';
import geojsonvt from 'geojson-vt';
import vtpbf from 'vt-pbf';

const redis = await createClient({ url: process.env.REDIS_URL }).connect();
const s3 = new S3Client({});

const TTL = 180_000;
const LIMIT = 150_000;

const RELEASE =
  "if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) end return 0";

async function build(region, zooms) {
  const index = geojsonvt(await features(region), { maxZoom: Math.max(...zooms), indexMaxZoom: 8 });
  let count = 0;
  for (const { z, x, y } of index.tileCoords) {
    if (!zooms.includes(z)) continue;
    const tile = index.getTile(z, x, y);
    await s3.send(
      new PutObjectCommand({
        Bucket: process.env.TILE_BUCKET,
        Key: `${region}/${z}/${x}/${y}.pbf`,
        Body: Buffer.from(vtpbf.fromGeojsonVt({ [region]: tile })),
      }),
    );
    count++;
  }
  await markBuilt(region, count);
  return count;
}

function timeout(ms, label) {
  let timer;
  const promise = new Promise((_, reject) => {
    timer = setTimeout(() => reject(new Error(`${label} took longer than ${ms} ms`)), ms);
  });
  return { promise, clear: () => clearTimeout(timer) };
}

export async function buildRegion(region, zooms = [4, 6, 8]) {
  const key = `tiles:${region}`;
  const token = randomUUID();
  const got = await redis.set(key, token, { NX: true, PX: TTL });
  if (got !== 'OK') throw new Error(`${region} is already being built`);

  const limit = timeout(LIMIT, `tiles for ${region}`);
  try {
    return await Promise.race([build(region, zooms), limit.promise]);
  } finally {
    limit.clear();
    await redis.eval(RELEASE, { keys: [key], arguments: [token] });
  }
}
