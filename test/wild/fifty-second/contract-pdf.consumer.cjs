'use strict';

const { randomUUID } = require('node:crypto');
const { setTimeout: sleep } = require('node:timers/promises');
const { SQSClient, ReceiveMessageCommand, DeleteMessageCommand } = require('@aws-sdk/client-sqs');
const { S3Client, PutObjectCommand, DeleteObjectCommand } = require('@aws-sdk/client-s3');
const Redis = require('ioredis');
const { Contract } = require('../models/contract');
const { renderContract } = require('../lib/render-contract');
const config = require('../config');
const logger = require('../config/logger');

const LOCK_TTL_MS = 60_000;
const RENEW_MS = 15_000;

const sqs = new SQSClient({ region: config.region });
const s3 = new S3Client({ region: config.region });
const redis = new Redis(config.redisUrl, { commandTimeout: 3_000, maxRetriesPerRequest: 1 });
redis.on('error', (err) => logger.warn({ err }, 'redis error'));

redis.defineCommand('renewLock', {
  numberOfKeys: 1,
  lua: `if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('pexpire', KEYS[1], ARGV[2]) end return 0`,
});
redis.defineCommand('releaseLock', {
  numberOfKeys: 1,
  lua: `if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) end return 0`,
});

async function withLock(key, work) {
  const token = randomUUID();
  if ((await redis.set(key, token, 'PX', LOCK_TTL_MS, 'NX')) !== 'OK') return false;

  const controller = new AbortController();
  const timer = setInterval(() => {
    redis.renewLock(key, token, LOCK_TTL_MS).then(
      (renewed) => {
        if (renewed !== 1) controller.abort(new Error(`lock ${key} lost`));
      },
      (err) => controller.abort(err),
    );
  }, RENEW_MS);

  try {
    await work(controller.signal, token);
    return true;
  } finally {
    clearInterval(timer);
    await redis.releaseLock(key, token).catch((err) => logger.warn({ err, key }, 'lock release failed'));
  }
}

async function renderAndStore(contractId, signal, attempt) {
  const contract = await Contract.findById(contractId).lean();
  if (!contract || contract.status !== 'signed') return;

  const pdf = await renderContract(contract, { signal });
  signal.throwIfAborted();

  const objectKey = `contracts/${contractId}/${attempt}.pdf`;
  const target = { Bucket: config.contractsBucket, Key: objectKey };
  await s3.send(new PutObjectCommand({ ...target, Body: pdf, ContentType: 'application/pdf' }), { abortSignal: signal });

  signal.throwIfAborted();
  const result = await Contract.updateOne(
    { _id: contractId, status: 'signed', revision: contract.revision },
    { $set: { status: 'archived', pdfKey: objectKey } },
  );
  if (result.modifiedCount === 0) {
    await s3.send(new DeleteObjectCommand(target));
    throw new Error(`contract ${contractId} changed during rendering`);
  }
}

async function handleMessage(message) {
  const { contractId } = JSON.parse(message.Body);
  const done = await withLock(`lock:contract-pdf:${contractId}`, (signal, token) =>
    renderAndStore(contractId, signal, token),
  );
  if (!done) {
    logger.info({ contractId }, 'contract is being rendered elsewhere');
    return;
  }
  await sqs.send(new DeleteMessageCommand({ QueueUrl: config.contractQueueUrl, ReceiptHandle: message.ReceiptHandle }));
}

async function start(shutdownSignal) {
  while (!shutdownSignal.aborted) {
    try {
      const { Messages = [] } = await sqs.send(
        new ReceiveMessageCommand({ QueueUrl: config.contractQueueUrl, WaitTimeSeconds: 20, MaxNumberOfMessages: 1 }),
        { abortSignal: shutdownSignal },
      );
      for (const message of Messages) await handleMessage(message);
    } catch (err) {
      if (shutdownSignal.aborted) break;
      logger.error({ err }, 'contract pdf message failed');
      await sleep(1_000);
    }
  }
}

module.exports = { start };
