import { Redis } from '@upstash/redis'
import type { Request, Response } from 'express'

export interface WebhookEvent {
  id: string
  type: 'order.paid' | 'order.refunded' | 'order.disputed'
  data: { orderId: string; amount: number }
}

export interface OrderWorkflow {
  markPaid(orderId: string, amount: number): Promise<void>
  refund(orderId: string, amount: number): Promise<void>
  openDispute(orderId: string): Promise<void>
}

export interface IntakeLogger {
  info(fields: object, message: string): void
  error(fields: object, message: string): void
}

export interface IntakeOptions {
  claimTtlSeconds?: number
  namespace?: string
}

export class UnknownEventError extends Error {
  constructor(readonly type: string) {
    super(`No handler for ${type}`)
    this.name = 'UnknownEventError'
  }
}

export class WebhookIntake {
  private readonly claimTtlSeconds: number
  private readonly namespace: string

  constructor(
    private readonly redis: Redis,
    private readonly workflow: OrderWorkflow,
    private readonly logger: IntakeLogger,
    { claimTtlSeconds = 3 * 24 * 60 * 60, namespace = 'webhook' }: IntakeOptions = {},
  ) {
    this.claimTtlSeconds = claimTtlSeconds
    this.namespace = namespace
  }

  handler = async (req: Request, res: Response): Promise<void> => {
    const event = req.body as WebhookEvent

    const claimed = await this.claim(event)
    if (!claimed) {
      this.logger.info({ eventId: event.id }, 'webhook seen before')
      res.status(200).json({ duplicate: true })
      return
    }

    try {
      await this.dispatch(event)
      res.status(200).json({ received: true })
    } catch (error) {
      this.logger.error({ eventId: event.id, error }, 'webhook failed, the provider will send it again')
      res.status(500).json({ error: 'temporary failure' })
    }
  }

  private async claim(event: WebhookEvent): Promise<boolean> {
    const reply = await this.redis.set(`${this.namespace}:${event.id}`, `at-${Date.now()}`, {
      nx: true,
      ex: this.claimTtlSeconds,
    })
    return reply === 'OK'
  }

  private async dispatch({ type, data }: WebhookEvent): Promise<void> {
    switch (type) {
      case 'order.paid':
        return this.workflow.markPaid(data.orderId, data.amount)
      case 'order.refunded':
        return this.workflow.refund(data.orderId, data.amount)
      case 'order.disputed':
        return this.workflow.openDispute(data.orderId)
      default:
        throw new UnknownEventError(type)
    }
  }
}
