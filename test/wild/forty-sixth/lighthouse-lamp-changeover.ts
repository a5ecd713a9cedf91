import Redis from 'ioredis';
import Redlock, { ExecutionError } from 'redlock5';
import axios from 'axios';
import { setTimeout as sleep } from 'node:timers/promises';
import { MongoClient } from 'mongodb';
import pino from 'pino';

const log = pino({ name: 'lamp-changeover' });

const clients = ['10.4.0.11', '10.4.0.12', '10.4.0.13'].map(
  (host) => new Redis({ host, maxRetriesPerRequest: 1, connectTimeout: 500, commandTimeout: 300 }),
);
clients.forEach((c) => c.on('error', (err) => log.warn({ err: err.message }, 'redis node')));

const redlock = new Redlock(clients, {
  retryCount: 5,
  retryDelay: 400,
  retryJitter: 200,
  automaticExtensionThreshold: 6_000,
});
redlock.on('error', (err) => log.debug({ err: err.message }, 'redlock'));

const mongo = new MongoClient(process.env.MONGO_URL!);
const stations = mongo.db('lights').collection('stations');
const plc = axios.create({ baseURL: process.env.PLC_GATEWAY_URL, timeout: 5_000 });

const WARM_UP_POLL_MS = 2_000;
const WARM_UP_POLLS = 45;

async function waitForLamp(station: string, slot: string): Promise<boolean> {
  for (let i = 0; i < WARM_UP_POLLS; i++) {
    const { data } = await plc.get(`/${station}/lamps/${slot}`);
    if (data.candela >= data.ratedCandela * 0.95) return true;
    await sleep(WARM_UP_POLL_MS);
  }
  return false;
}

/**
 * Changes over to the stand-by lamp. The lens can only be driven by one
 * controller at a time: two changeovers of one station must never overlap.
 */
export async function changeOver(name: string, operator: string): Promise<'changed' | 'failed'> {
  return redlock.using([`light:${name}:lens`], 12_000, async () => {
    const station = await stations.findOne({ name });
    if (!station) throw new Error(`no station ${name}`);
    const from = station.activeSlot as string;
    const to = from === 'A' ? 'B' : 'A';

    await plc.put(`/${name}/lamps/${to}`, { power: 'on' });
    if (!(await waitForLamp(name, to))) {
      await plc.put(`/${name}/lamps/${to}`, { power: 'off' });
      await stations.updateOne({ name }, { $push: { faults: { slot: to, at: new Date() } } as never });
      return 'failed';
    }

    await plc.post(`/${name}/lens/rotate`, { slot: to });
    await plc.put(`/${name}/lamps/${from}`, { power: 'off' });
    await stations.updateOne({ name }, { $set: { activeSlot: to, changedBy: operator, changedAt: new Date() } });
    log.info({ name, from, to, operator }, 'lamp changed over');
    return 'changed';
  });
}

async function main() {
  const [name, operator] = process.argv.slice(2);
  if (!name || !operator) throw new Error('usage: lamp-changeover STATION OPERATOR');
  await mongo.connect();
  try {
    const outcome = await changeOver(name, operator);
    process.exitCode = outcome === 'changed' ? 0 : 2;
  } catch (err) {
    if (err instanceof ExecutionError) log.error('station is locked by another operator');
    else log.error(err);
    process.exitCode = 1;
  } finally {
    await mongo.close();
    await Promise.allSettled(clients.map((c) => c.quit()));
  }
}

void main();
