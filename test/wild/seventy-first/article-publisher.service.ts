import { ConflictException, Injectable, Logger, Module, type OnModuleDestroy } from '@nestjs/common';
import { randomUUID } from 'node:crypto';
import axios from 'axios';
import Redis from 'ioredis';
import { PrismaClient } from '@prisma/client';

const TTL_MS = 10 * 60 * 1000;
const ATTEMPTS = 5;
const ATTEMPT_DELAY_MS = 300;

@Injectable()
export class LockService implements OnModuleDestroy {
  private readonly redis = new Redis(process.env.REDIS_URL ?? 'redis://localhost:6379');
  private token = '';

  async acquire(resource: string, ttl = TTL_MS): Promise<boolean> {
    for (let attempt = 1; attempt <= ATTEMPTS; attempt++) {
      this.token = randomUUID();
      const reply = await this.redis.set(`lock:${resource}`, this.token, 'PX', ttl, 'NX');
      if (reply === 'OK') return true;
      if (attempt < ATTEMPTS) {
        await new Promise((resolve) => setTimeout(resolve, ATTEMPT_DELAY_MS * attempt));
      }
    }
    return false;
  }

  async release(resource: string): Promise<boolean> {
    const released = await this.redis.eval(
      `if redis.call('get', KEYS[1]) == ARGV[1] then
         return redis.call('del', KEYS[1])
       end
       return 0`,
      1,
      `lock:${resource}`,
      this.token,
    );
    return released === 1;
  }

  onModuleDestroy() {
    this.redis.disconnect();
  }
}

@Injectable()
export class ArticlePublisher {
  private readonly logger = new Logger(ArticlePublisher.name);
  private readonly prisma = new PrismaClient();

  constructor(private readonly locks: LockService) {}

  /**
   * Renders the article, pushes it to the CDN and bumps the published revision.
   * Editors and the scheduled publisher both end up here.
   */
  async publish(articleId: string, editorId: string) {
    const resource = `article:${articleId}:publish`;
    if (!(await this.locks.acquire(resource))) {
      throw new ConflictException('This article is being published by someone else');
    }
    try {
      const article = await this.prisma.article.findUniqueOrThrow({ where: { id: articleId } });
      if (article.publishedRevision === article.revision) {
        return { articleId, revision: article.revision, changed: false };
      }

      const { data: html } = await axios.post<string>(
        `${process.env.RENDERER_URL}/render`,
        { id: articleId, revision: article.revision, markdown: article.markdown },
        { timeout: 20_000 },
      );
      await axios.put(`${process.env.CDN_ORIGIN}/articles/${article.slug}.html`, html, {
        timeout: 20_000,
        headers: { 'content-type': 'text/html; charset=utf-8' },
      });
      await this.prisma.article.updateMany({
        where: { id: articleId, revision: { gte: article.revision } },
        data: { publishedRevision: article.revision, publishedBy: editorId, publishedAt: new Date() },
      });
      this.logger.log(`published ${article.slug} r${article.revision}`);
      return { articleId, revision: article.revision, changed: true };
    } finally {
      await this.locks.release(resource).catch((err: Error) => {
        this.logger.warn(`release of ${resource} failed: ${err.message}`);
      });
    }
  }
}

@Module({
  providers: [LockService, ArticlePublisher],
  exports: [ArticlePublisher],
})
export class PublishingModule {}
