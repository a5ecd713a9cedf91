// Daily newsletter for the garden centre client.
// We run 3 pm2 instances on 2 servers and all of them have this cron,
// so everyone got the mail 6 times... now only the first one sends it.
const cron = require('node-cron');
const nodemailer = require('nodemailer');
const { createClient } = require('redis');

const client = createClient({ url: process.env.REDIS_URL });
client.on('error', (err) => console.log('Redis error', err));

const mailer = nodemailer.createTransport({
  host: process.env.SMTP_HOST,
  port: 587,
  auth: { user: process.env.SMTP_USER, pass: process.env.SMTP_PASS },
});

// 2025-03-14
function today() {
  return new Date().toISOString().slice(0, 10);
}

// true only for the first one who asks for this day
async function isMyTurn(day) {
  const result = await client.set('newsletter:sent:' + day, String(process.pid), {
    NX: true,
    EX: 60 * 60 * 48, // key can go away after 2 days
  });
  return result === 'OK';
}

async function loadOffers() {
  const res = await fetch(process.env.CMS_URL + '/offers?limit=5');
  if (!res.ok) throw new Error('CMS gave ' + res.status);
  return res.json();
}

async function sendNewsletter() {
  const offers = await loadOffers();
  const html = offers.map((o) => `<h2>${o.title}</h2><p>${o.text}</p>`).join('\n');
  // goes to the mailing list address, the list server does the rest
  await mailer.sendMail({
    from: 'hello@example-garden.nl',
    to: process.env.LIST_ADDRESS,
    subject: 'Offers of the day',
    html,
  });
}

async function main() {
  await client.connect();

  cron.schedule(
    '0 9 * * *',
    async () => {
      const day = today();
      try {
        if (!(await isMyTurn(day))) {
          console.log('newsletter of ' + day + ' is done by another instance');
          return;
        }
        await sendNewsletter();
        console.log('newsletter of ' + day + ' sent');
      } catch (err) {
        // Don't try again: client says better one day without than two mails on one day
        console.error('newsletter of ' + day + ' failed', err);
      }
    },
    { timezone: 'Europe/Amsterdam' }
  );
}

main();
