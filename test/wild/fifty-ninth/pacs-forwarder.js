'use strict';

const axios = require('axios');
const Redis = require('ioredis');
const Redlock = require('redlock4');
const { MongoClient } = require('mongodb');
const log = require('./log').child({ module: 'pacs-forwarder' });
const config = require('./config');

const redis = new Redis(config.redis.url, { maxRetriesPerRequest: 2 });
const redlock = new Redlock([redis], { driftFactor: 0.01, retryCount: 3, retryDelay: 400, retryJitter: 200 });
redlock.on('clientError', (err) => log.warn({ err }, 'redis error in redlock'));

const STUDY_LOCK_TTL = 5000;

const http = axios.create({
  baseURL: config.archive.url,
  timeout: 60000, // CTs with many slices take a while
  maxBodyLength: Infinity,
});

/**
 * The archive of the partner hospital creates a second study if the same one is posted twice, and
 * somebody has to merge them by hand. So only one forwarder may be busy with a study.
 */
async function forwardStudy(studies, studyUid) {
  let lock;
  try {
    lock = await redlock.lock(`locks:study:${studyUid}`, STUDY_LOCK_TTL);
  } catch (err) {
    if (err.name === 'LockError') {
      log.info({ studyUid }, 'study is with another forwarder');
      return false;
    }
    throw err;
  }

  try {
    const study = await studies.findOne({ _id: studyUid });
    if (!study || study.forwardedAt) return false;

    const started = Date.now();
    const created = await http.post('/studies', {
      uid: study._id,
      patient: study.pseudonym,
      modality: study.modality,
    });
    for (const series of study.series) {
      await http.post(`/studies/${created.data.id}/series`, { uid: series.uid, instances: series.instances });
    }

    await studies.updateOne({ _id: studyUid }, { $set: { forwardedAt: new Date(), archiveId: created.data.id } });
    log.info({ studyUid, series: study.series.length, ms: Date.now() - started }, 'study forwarded');
    return true;
  } finally {
    // redlock compares its value, so this never removes somebody else's lock
    await lock.unlock().catch((err) => log.debug({ err, studyUid }, 'unlock'));
  }
}

async function run() {
  const mongo = await MongoClient.connect(config.mongo.url);
  const studies = mongo.db('imaging').collection('studies');

  let stopping = false;
  process.once('SIGTERM', () => {
    stopping = true;
  });

  while (!stopping) {
    const open = await studies
      .find({ forwardedAt: null, complete: true })
      .sort({ receivedAt: 1 })
      .limit(20)
      .project({ _id: 1 })
      .toArray();

    for (const { _id } of open) {
      if (stopping) break;
      try {
        await forwardStudy(studies, _id);
      } catch (err) {
        log.error({ err, studyUid: _id }, 'forwarding failed');
      }
    }
    await new Promise((r) => setTimeout(r, open.length ? 500 : 10000));
  }

  await mongo.close();
  await redis.quit();
}

module.exports = { forwardStudy, run };

if (require.main === module) run();
