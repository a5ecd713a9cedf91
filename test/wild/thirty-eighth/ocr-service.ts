import { Body, Controller, HttpException, Injectable, Logger, Module, OnModuleDestroy, Param, Post } from '@nestjs/common';
import { NestFactory } from '@nestjs/core';
import Redis from 'ioredis';
import { Semaphore, TimeoutError } from 'redis-semaphore';

// Our contract with the OCR engine: four pages at a time, over all pods.
const ENGINE_PAGES = 4;

interface OcrResult {
  text: string;
  confidence: number;
}

@Injectable()
export class OcrService implements OnModuleDestroy {
  private readonly logger = new Logger(OcrService.name);
  private readonly redis = new Redis(process.env.REDIS_URL ?? 'redis://localhost:6379');
  private readonly gate = new Semaphore(this.redis, 'ocr:engine', ENGINE_PAGES, {
    lockTimeout: 30_000,
    refreshInterval: 10_000,
    acquireTimeout: 60_000,
    retryInterval: 200,
    onLockLost: (err) => this.logger.error(err.message),
  });

  async recognise(pageId: string, imageUrl: string): Promise<OcrResult> {
    await this.gate.acquire();
    try {
      const t0 = Date.now();
      const result = await this.callEngine(imageUrl);
      this.logger.log(`page ${pageId}: ${result.text.length} characters in ${Date.now() - t0} ms`);
      return result;
    } finally {
      await this.gate.release();
    }
  }

  private async callEngine(imageUrl: string): Promise<OcrResult> {
    const res = await fetch(`${process.env.OCR_ENGINE_URL}/v2/recognise`, {
      method: 'POST',
      headers: { 'content-type': 'application/json', 'x-api-key': process.env.OCR_ENGINE_KEY ?? '' },
      body: JSON.stringify({ image: imageUrl, languages: ['de', 'en'] }),
      signal: AbortSignal.timeout(90_000),
    });
    if (!res.ok) throw new Error(`OCR engine answered ${res.status}`);
    return (await res.json()) as OcrResult;
  }

  async onModuleDestroy(): Promise<void> {
    await this.redis.quit();
  }
}

@Controller('pages')
export class OcrController {
  constructor(private readonly ocr: OcrService) {}

  @Post(':id/text')
  async text(@Param('id') id: string, @Body() body: { imageUrl: string }): Promise<OcrResult> {
    try {
      return await this.ocr.recognise(id, body.imageUrl);
    } catch (err) {
      if (err instanceof TimeoutError) throw new HttpException('the OCR engine is busy', 503);
      throw err;
    }
  }
}

@Module({ controllers: [OcrController], providers: [OcrService] })
export class OcrModule {}

async function bootstrap(): Promise<void> {
  const app = await NestFactory.create(OcrModule);
  app.enableShutdownHooks();
  await app.listen(Number(process.env.PORT ?? 3000));
}

void bootstrap();
