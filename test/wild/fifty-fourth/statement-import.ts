#!/usr/bin/env node
import { readFile } from 'node:fs/promises';
import { Command } from 'commander';
import Redis from 'ioredis';
import Redlock, { ExecutionError, RedlockAbortSignal, ResourceLockedError } from 'redlock5';
import { Pool } from 'pg';
import { chunk } from 'lodash';
import pino from 'pino';

const log = pino({ name: 'statement-import' });

const nodes = ['REDIS_A', 'REDIS_B', 'REDIS_C'].map((name) => new Redis(process.env[name]!));
const redlock = new Redlock(nodes, { retryCount: 0, driftFactor: 0.01 });
redlock.on('error', (err) => {
  if (!(err instanceof ResourceLockedError)) log.warn({ err }, 'redlock');
});

const pool = new Pool({ connectionString: process.env.DATABASE_URL, statement_timeout: 10_000 });

interface Line {
  bankRef: string;
  bookedOn: string;
  cents: number;
  purpose: string;
}

// semicolon separated: reference;booking date;amount in cents;purpose
function parse(text: string): Line[] {
  return text
    .split(/\r?\n/)
    .filter((l) => l.trim() !== '' && !l.startsWith('#'))
    .map((l) => {
      const [bankRef, bookedOn, cents, ...purpose] = l.split(';');
      return { bankRef, bookedOn, cents: Number.parseInt(cents, 10), purpose: purpose.join(';') };
    });
}

async function insertBatch(iban: string, lines: Line[]): Promise<number> {
  const { rowCount } = await pool.query(
    `insert into bank_lines (iban, bank_ref, booked_on, cents, purpose)
     select $1, * from unnest($2::text[], $3::date[], $4::bigint[], $5::text[])
     on conflict (iban, bank_ref) do nothing`,
    [
      iban,
      lines.map((l) => l.bankRef),
      lines.map((l) => l.bookedOn),
      lines.map((l) => l.cents),
      lines.map((l) => l.purpose),
    ],
  );
  return rowCount ?? 0;
}

async function importStatement(iban: string, no: number, file: string, signal: RedlockAbortSignal) {
  const lines = parse(await readFile(file, 'utf8'));
  let added = 0;
  for (const batch of chunk(lines, 500)) {
    if (signal.aborted) throw signal.error ?? new Error('lost the account');
    added += await insertBatch(iban, batch);
  }
  if (signal.aborted) throw signal.error ?? new Error('lost the account');
  await pool.query('update accounts set last_statement = $2 where iban = $1 and last_statement < $2', [iban, no]);
  return { read: lines.length, added };
}

async function main(iban: string, file: string, opts: { number: string }): Promise<void> {
  let entered = false;
  try {
    const result = await redlock.using(
      [`statement:${iban}`],
      30_000,
      { automaticExtensionThreshold: 8_000 },
      async (signal) => {
        entered = true;
        return importStatement(iban, Number(opts.number), file, signal);
      },
    );
    log.info({ iban, ...result }, 'statement imported');
  } catch (err) {
    if (!entered && err instanceof ExecutionError) {
      log.warn({ iban }, 'account is busy or the nodes are away, try later');
      process.exitCode = 75;
      return;
    }
    log.error({ err, iban }, 'import ended with an error, safe to run again');
    process.exitCode = 1;
  } finally {
    await Promise.allSettled([pool.end(), ...nodes.map((n) => n.quit())]);
  }
}

new Command('statement-import')
  .argument('<iban>')
  .argument('<file>')
  .requiredOption('-n, --number <n>', 'number of the statement')
  .action(main)
  .parseAsync();
