import { setTimeout as sleep } from 'node:timers/promises';
import { PGlite } from '@electric-sql/pglite';
import { Redlock } from 'lockstep-redlock';
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import { type Provision, provision } from '../../real/provisioner/index.js';
import { canRunOnRedis } from '../../real/testing/can-run.js';
import { Accounts, StaleWriter } from './accounts.js';
import { Service } from './service.js';

const title = 'a service with fencing tokens, on three Redis nodes and PostgreSQL';

describe.skipIf(!canRunOnRedis(title))(title, () => {
  let nodes: Provision;
  let redlock: Redlock;
  let accounts: Accounts;
  let service: Service;

  beforeAll(async () => {
    nodes = await provision({ nodes: 3 });
    const clients = nodes.nodes.map((node) => node.client());
    redlock = new Redlock(clients, { fencing: true, nodeTimeoutMs: 900, retryCount: 100, retryDelay: 50 });
    // Once, as the nodes are new.
    await redlock.recoverFencing(0);
  });
  beforeEach(async () => {
    accounts = new Accounts(new PGlite());
    await accounts.create();
    await accounts.open('alice', 100);
    service = new Service(redlock, accounts);
  });
  afterAll(async () => {
    await redlock?.quit();
    await nodes?.stop();
  });

  test('charges that come at once follow each other', async () => {
    await Promise.all([1, 2, 3, 4, 5].map((amount) => service.charge('alice', amount)));
    expect(await accounts.balance('alice')).toBe(85);
  });

  test('a charge that is paused beyond its lock writes nothing, and the one that came meanwhile stays', async () => {
    const slow = service.charge('alice', 10, async () => {
      await sleep(2_500);
      // Another process, as far as the lock can see.
      await service.charge('alice', 1);
    });
    await expect(slow).rejects.toThrow(StaleWriter);
    expect(await accounts.balance('alice')).toBe(99);
  });

  test('without the comparison the late write would undo the other one', async () => {
    // A resource that takes what it is given.
    let always = 1_000_000;
    const write = Accounts.prototype.write;
    accounts.write = (id, balance, token) => write.call(accounts, id, balance, { ...token, counter: always++ });
    const slow = service.charge('alice', 10, async () => {
      await sleep(2_500);
      await service.charge('alice', 1);
    });
    expect(await slow).toBe(90);
    expect(await accounts.balance('alice')).toBe(90);
  });
});
