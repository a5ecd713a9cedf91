import { createHmac, timingSafeEqual } from 'node:crypto';

const SEEN_TTL_SECONDS = 7 * 24 * 60 * 60;

/**
 * Carrier webhooks. The carrier delivers at least once: it repeats a delivery every few minutes, for
 * three days, until we answer 2xx. Repetitions carry the same event id.
 *
 * Register with: app.register(shipmentWebhook, { redis, shipments, notifications, secret })
 */
export default async function shipmentWebhook(app, { redis, shipments, notifications, secret }) {
  app.addContentTypeParser('application/json', { parseAs: 'buffer' }, (req, body, done) => {
    req.rawBody = body;
    try {
      done(null, JSON.parse(body.toString('utf8')));
    } catch (err) {
      err.statusCode = 400;
      done(err);
    }
  });

  app.post('/webhooks/carrier', async (request, reply) => {
    if (!verify(request.rawBody, request.headers['x-carrier-signature'], secret)) {
      return reply.code(401).send({ error: 'bad signature' });
    }

    const event = request.body;
    const key = `carrier:event:${event.id}`;

    const first = await redis.set(key, new Date().toISOString(), 'EX', SEEN_TTL_SECONDS, 'NX');
    if (first !== 'OK') {
      request.log.info({ eventId: event.id }, 'event seen already');
      return reply.code(200).send({ duplicate: true });
    }

    try {
      await handleEvent(event, request.log);
      return reply.code(200).send({ ok: true });
    } catch (err) {
      request.log.error({ err, eventId: event.id }, 'carrier event failed');
      return reply.code(500).send({ error: 'try again' });
    }
  });

  async function handleEvent(event, log) {
    switch (event.type) {
      case 'parcel.scanned':
        await shipments.addScan(event.parcel, { at: event.occurred_at, depot: event.depot });
        return;

      case 'parcel.delivered': {
        const shipment = await shipments.markDelivered(event.parcel, event.occurred_at);
        if (shipment.customer.wantsMail) {
          await notifications.send('parcel-delivered', shipment.customer.id, { parcel: event.parcel });
        }
        return;
      }

      case 'parcel.lost':
        await shipments.openClaim(event.parcel, { reference: event.id });
        return;

      default:
        log.info({ type: event.type }, 'carrier event of no interest');
    }
  }
}

function verify(rawBody, signature, secret) {
  if (typeof signature !== 'string' || !rawBody) {
    return false;
  }
  const expected = createHmac('sha256', secret).update(rawBody).digest();
  const given = Buffer.from(signature, 'hex');
  return given.length === expected.length && timingSafeEqual(given, expected);
}
