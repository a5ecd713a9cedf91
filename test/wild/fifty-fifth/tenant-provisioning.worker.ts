import { PutObjectCommand, S3Client } from '@aws-sdk/client-s3';
import { ExecutionError, Redlock, ResourceLockedError } from '@sesamecare-oss/redlock';
import { Worker, type Job } from 'bullmq';
import Redis from 'ioredis';
import { Pool } from 'pg';
import pino from 'pino';

interface ProvisionJob {
  tenantId: string;
  plan: 'starter' | 'team' | 'enterprise';
  adminEmail: string;
}

const log = pino({ name: 'provisioning' });
const s3 = new S3Client({ region: process.env.AWS_REGION });
const pool = new Pool({ connectionString: process.env.DATABASE_URL });

// Three independent instances, one per availability zone. No replication between them.
const nodes = process.env.LOCK_NODES!.split(',').map((url) => new Redis(url, { commandTimeout: 500 }));

const redlock = new Redlock(nodes, {
  driftFactor: 0.01,
  retryCount: 5,
  retryDelay: 400,
  retryJitter: 200,
  automaticExtensionThreshold: 10_000,
});
redlock.on('error', (err) => {
  if (err instanceof ResourceLockedError) return;
  log.warn({ err }, 'redlock node error');
});

type Step = { name: string; run: (job: ProvisionJob) => Promise<unknown> };

// Tenant ids are UUIDs.
const ident = (tenantId: string) => `"t_${tenantId.replace(/[^a-z0-9]/gi, '')}"`;

// Every step may be repeated, or even overlap with itself, without harm.
const steps: Step[] = [
  {
    name: 'tenant row',
    run: (j) =>
      pool.query(
        `INSERT INTO tenants (id, plan, status) VALUES ($1, $2, 'pending') ON CONFLICT (id) DO NOTHING`,
        [j.tenantId, j.plan],
      ),
  },
  { name: 'schema', run: (j) => pool.query(`CREATE SCHEMA IF NOT EXISTS ${ident(j.tenantId)}`) },
  {
    name: 'bucket prefix',
    run: (j) =>
      s3.send(new PutObjectCommand({ Bucket: process.env.TENANT_BUCKET, Key: `${j.tenantId}/.keep`, Body: '' })),
  },
  {
    name: 'admin',
    run: (j) =>
      pool.query(
        `INSERT INTO tenant_users (tenant_id, email, role) VALUES ($1, $2, 'admin')
         ON CONFLICT (tenant_id, email) DO NOTHING`,
        [j.tenantId, j.adminEmail.toLowerCase()],
      ),
  },
  {
    name: 'activate',
    run: (j) => pool.query(`UPDATE tenants SET status = 'active' WHERE id = $1 AND status = 'pending'`, [j.tenantId]),
  },
];

async function provision(job: Job<ProvisionJob>): Promise<void> {
  const { tenantId } = job.data;
  try {
    await redlock.using([`provision:${tenantId}`], 30_000, async (signal) => {
      for (const [i, step] of steps.entries()) {
        if (signal.aborted) throw signal.error ?? new Error('provisioning lock lost');
        log.info({ tenantId, step: step.name }, 'provisioning step');
        await step.run(job.data);
        await job.updateProgress(Math.round(((i + 1) / steps.length) * 100));
      }
    });
  } catch (err) {
    if (err instanceof ExecutionError) {
      // Held by another worker or no majority: BullMQ backs off and tries again.
      log.info({ tenantId }, 'provisioning postponed');
    }
    throw err;
  }
}

export const worker = new Worker<ProvisionJob>('provision-tenant', provision, {
  connection: new Redis(process.env.REDIS_URL!, { maxRetriesPerRequest: null }),
  concurrency: 4,
});
worker.on('failed', (job, err) => log.error({ jobId: job?.id, err }, 'provisioning failed'));
