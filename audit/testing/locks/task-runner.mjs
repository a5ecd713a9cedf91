export class TaskRunner {
  constructor(redis, worker) {
    this.redis = redis;
    this.worker = worker;
  }

  /** The key is made of what is deep in the task. */
  async process(task) {
    const {
      meta: { tenantId },
      id,
    } = task;
    const key = ['task', tenantId.trim(), id].join(':');
    if (!(await this.redis.set(key, this.worker, 'PX', 9_000, 'NX'))) return { skipped: true };
    try {
      for (const step of task.steps ?? []) await this.redis.incr(`done:${step}`);
      return { skipped: false };
    } finally {
      if ((await this.redis.get(key)) === this.worker) await this.redis.del(key);
    }
  }
}
