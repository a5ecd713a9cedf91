'use strict';

const { randomUUID } = require('node:crypto');
const { PutObjectCommand, S3Client } = require('@aws-sdk/client-s3');
const { SendEmailCommand, SESv2Client } = require('@aws-sdk/client-sesv2');
const Redis = require('ioredis');
const { Pool } = require('pg');
const { renderStatementPdf } = require('./lib/statement-pdf');

const redis = new Redis(process.env.REDIS_URL, { commandTimeout: 2000, maxRetriesPerRequest: 1 });
const pool = new Pool({ connectionString: process.env.DATABASE_URL, max: 2, query_timeout: 10_000 });
const s3 = new S3Client({});
const ses = new SESv2Client({});

// Lambda timeout is 60 s, nothing of us is left running after that.
const LOCK_MS = 90_000;

const RELEASE = `
if redis.call('GET', KEYS[1]) == ARGV[1] then
  return redis.call('DEL', KEYS[1], KEYS[2])
end
return 0`;

const keysFor = (accountId) => [`{statement:${accountId}}:lock`, `{statement:${accountId}}:run`];

/**
 * One export per account at a time: the month-end scheduler, the "send again"
 * button and the support console all invoke this function. The run key is for
 * the console, it shows who is exporting since when.
 */
async function lockAccount(accountId, run) {
  const token = randomUUID();
  const [lockKey, runKey] = keysFor(accountId);
  const reply = await redis
    .multi()
    .set(lockKey, token, 'PX', LOCK_MS, 'NX')
    .set(runKey, JSON.stringify(run), 'PX', LOCK_MS, 'NX')
    .exec();
  if (!reply) return null;
  return token;
}

async function unlockAccount(accountId, token) {
  try {
    await redis.eval(RELEASE, 2, ...keysFor(accountId), token);
  } catch (err) {
    console.warn('statement lock not released', accountId, err.message);
  }
}

async function exportStatement(accountId, period) {
  const { rows: [account] } = await pool.query(
    'SELECT email, holder, iban, last_statement_no, opening_cents FROM accounts WHERE id = $1',
    [accountId],
  );
  if (!account) throw new Error(`unknown account ${accountId}`);

  const { rows: bookings } = await pool.query(
    `SELECT booked_on, text, amount_cents FROM bookings
      WHERE account_id = $1 AND statement_no IS NULL AND booked_on < ($2 || '-01')::date + interval '1 month'
      ORDER BY booked_on, id`,
    [accountId, period],
  );
  if (bookings.length === 0) return { status: 'nothing-new' };

  const number = account.last_statement_no + 1;
  const pdf = await renderStatementPdf({ account, number, period, bookings });
  const key = `statements/${accountId}/${String(number).padStart(4, '0')}.pdf`;
  await s3.send(new PutObjectCommand({ Bucket: process.env.BUCKET, Key: key, Body: pdf, ContentType: 'application/pdf' }));

  const total = bookings.reduce((sum, b) => sum + Number(b.amount_cents), 0);
  await pool.query(
    `WITH done AS (
       UPDATE bookings SET statement_no = $2
        WHERE account_id = $1 AND statement_no IS NULL AND booked_on < ($3 || '-01')::date + interval '1 month')
     UPDATE accounts SET last_statement_no = $2, opening_cents = opening_cents + $4 WHERE id = $1`,
    [accountId, number, period, total],
  );

  await ses.send(
    new SendEmailCommand({
      FromEmailAddress: process.env.MAIL_FROM,
      Destination: { ToAddresses: [account.email] },
      Content: {
        Template: {
          TemplateName: 'account-statement',
          TemplateData: JSON.stringify({ holder: account.holder, number, period, key }),
        },
      },
    }),
  );
  return { status: 'exported', number, key };
}

exports.handler = async (event, context) => {
  const { accountId, period } = event;
  const token = await lockAccount(accountId, {
    requestId: context.awsRequestId,
    source: event.source ?? 'scheduler',
    startedAt: new Date().toISOString(),
  });
  if (token === null) {
    console.info('export of account is running already', accountId);
    return { status: 'busy' };
  }
  try {
    return await exportStatement(accountId, period);
  } finally {
    await unlockAccount(accountId, token);
  }
};
