import { ConflictException, Injectable, Logger, Module } from '@nestjs/common';
import { ConfigModule, ConfigService } from '@nestjs/config';
import { TypeOrmModule } from '@nestjs/typeorm';
import { DataSource } from 'typeorm';
import Redis from 'ioredis';
import { randomUUID } from 'node:crypto';
import { DrugStock } from './entities/drug-stock.entity';
import { Dispensing } from './entities/dispensing.entity';
import { DispenseDto } from './dto/dispense.dto';

const RELEASE = `
if redis.call('get', KEYS[1]) == ARGV[1] then
  return redis.call('del', KEYS[1])
end
return 0`;

@Injectable()
export class StockLockService {
  private readonly logger = new Logger(StockLockService.name);
  private readonly redis: Redis;
  private readonly ttlMs: number;

  constructor(config: ConfigService) {
    this.redis = new Redis(config.getOrThrow<string>('REDIS_URL'), { commandTimeout: 1_000, maxRetriesPerRequest: 1 });
    this.ttlMs = config.get<number>('STOCK_LOCK_TTL_MS', 30_000);
  }

  async withLock<T>(key: string, work: () => Promise<T>): Promise<T> {
    const token = randomUUID();
    const reply = await this.redis.set(key, token, 'PX', this.ttlMs, 'NX');
    if (reply !== 'OK') throw new ConflictException(`${key} is locked`);
    try {
      return await work();
    } finally {
      await this.redis
        .eval(RELEASE, 1, key, token)
        .catch((err) => this.logger.warn(`release of ${key} failed: ${err.message}`));
    }
  }
}

@Injectable()
export class DispensingService {
  private readonly logger = new Logger(DispensingService.name);

  constructor(private readonly dataSource: DataSource, private readonly locks: StockLockService) {}

  /**
   * Books the drugs of a prescription out of a ward's cabinet. Everything in one transaction, so
   * that a prescription is dispensed either completely or not at all; each stock row is changed
   * under its own lock, to keep two nurses from counting from the same number.
   */
  async dispense(dto: DispenseDto): Promise<Dispensing> {
    // same order for everybody; the locks are taken one after another, never nested
    const items = [...dto.items].sort((a, b) => a.drugCode.localeCompare(b.drugCode));

    return this.dataSource.transaction('READ COMMITTED', async (manager) => {
      await manager.query(`SET LOCAL statement_timeout = '4s'`);

      for (const item of items) {
        await this.locks.withLock(`stock:${dto.cabinetId}:${item.drugCode}`, async () => {
          const stock = await manager.findOneByOrFail(DrugStock, {
            cabinetId: dto.cabinetId,
            drugCode: item.drugCode,
          });
          if (stock.units < item.units) {
            throw new ConflictException(`only ${stock.units} of ${item.drugCode} left`);
          }
          await manager.update(DrugStock, { id: stock.id }, { units: stock.units - item.units });
        });
      }

      const record = await manager.save(
        manager.create(Dispensing, {
          cabinetId: dto.cabinetId,
          prescriptionId: dto.prescriptionId,
          nurseId: dto.nurseId,
          items,
        }),
      );
      this.logger.log(`prescription ${dto.prescriptionId} dispensed from ${dto.cabinetId}`);
      return record;
    });
  }
}

@Module({
  imports: [ConfigModule, TypeOrmModule.forFeature([DrugStock, Dispensing])],
  providers: [StockLockService, DispensingService],
  exports: [DispensingService],
})
export class DispensingModule {}
