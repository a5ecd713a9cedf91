/**
 * Claims on documents of the translation bureau.
 *
 * A translator claims a document, saves segments and hands it in. The claim lapses
 * after fifteen minutes without a save, and the document may then be claimed by
 * somebody else. Saves and the hand-in look at the claim and write in one script,
 * so that a translator whose claim has lapsed cannot write any more.
 */
import { randomUUID } from 'node:crypto';
import { Redis } from '@upstash/redis';
import { sendMail } from '../services/mailer';

const redis = Redis.fromEnv();
const CLAIM_MS = 15 * 60_000;

const CLAIM = `
if redis.call('hget', KEYS[2], 'status') == 'delivered' then return -1 end
local holder = redis.call('get', KEYS[1])
if holder and holder ~= ARGV[1] then return 0 end
redis.call('set', KEYS[1], ARGV[1], 'PX', ARGV[2])
return 1`;

const SAVE = `
if redis.call('get', KEYS[1]) ~= ARGV[1] then return 0 end
redis.call('hset', KEYS[2], ARGV[3], ARGV[4])
redis.call('pexpire', KEYS[1], ARGV[2])
return 1`;

const HAND_IN = `
if redis.call('hget', KEYS[2], 'deliveredWith') == ARGV[1] then return 1 end
if redis.call('get', KEYS[1]) ~= ARGV[1] then return 0 end
redis.call('hset', KEYS[2], 'status', 'delivered', 'deliveredWith', ARGV[1])
redis.call('del', KEYS[1])
return 1`;

const GIVE_BACK = `
if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) end
return 0`;

export class DocumentClaimedError extends Error {
  override name = 'DocumentClaimedError';
}

export class DocumentDeliveredError extends Error {
  override name = 'DocumentDeliveredError';
}

export class ClaimLapsedError extends Error {
  override name = 'ClaimLapsedError';
}

/** What the editor in the browser keeps and sends along with every save. */
export interface Claim {
  documentId: string;
  token: string;
}

function keysOf(documentId: string): [string, string] {
  return [`{doc:${documentId}}:claim`, `{doc:${documentId}}:work`];
}

/**
 * Claims a document for editing.
 * The script may be repeated with the same token: the HTTP client retries
 * requests whose answer was lost.
 */
export async function claimDocument(documentId: string): Promise<Claim> {
  const token = randomUUID();
  const outcome = await redis.eval<string[], number>(CLAIM, keysOf(documentId), [
    token,
    String(CLAIM_MS),
  ]);
  if (outcome === -1) throw new DocumentDeliveredError(documentId);
  if (outcome !== 1) throw new DocumentClaimedError(documentId);
  return { documentId, token };
}

/** Stores one translated segment and starts the fifteen minutes anew. */
export async function saveSegment(claim: Claim, segmentNo: number, text: string): Promise<void> {
  const saved = await redis.eval<string[], number>(SAVE, keysOf(claim.documentId), [
    claim.token,
    String(CLAIM_MS),
    `segment:${segmentNo}`,
    text,
  ]);
  if (saved !== 1) throw new ClaimLapsedError(claim.documentId);
}

/** Marks the document as delivered and ends the claim. */
export async function handIn(claim: Claim, clientEmail: string): Promise<void> {
  const delivered = await redis.eval<string[], number>(HAND_IN, keysOf(claim.documentId), [
    claim.token,
  ]);
  if (delivered !== 1) throw new ClaimLapsedError(claim.documentId);

  try {
    await sendMail({ to: clientEmail, template: 'delivered', data: { id: claim.documentId } });
  } catch (err) {
    console.error(`no delivery mail for ${claim.documentId}`, err);
  }
}

/** Gives a document back unfinished. A claim that has lapsed is no error here. */
export async function giveBack(claim: Claim): Promise<void> {
  const [claimKey] = keysOf(claim.documentId);
  await redis.eval<string[], number>(GIVE_BACK, [claimKey], [claim.token]);
}
