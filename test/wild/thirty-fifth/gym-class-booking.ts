// app/api/classes/[classId]/book/route.ts
import { Redis } from "@upstash/redis";

const redis = Redis.fromEnv();

const API = process.env.BOOKINGS_API_URL!;
const LOCK_TTL_MS = 15_000;

interface GymClass {
  id: string;
  title: string;
  capacity: number;
  attendees: string[];
}

function json(body: unknown, status = 200): Response {
  return Response.json(body, { status });
}

async function loadClass(classId: string, signal: AbortSignal): Promise<GymClass | null> {
  const res = await fetch(`${API}/classes/${classId}`, { signal, cache: "no-store" });
  if (res.status === 404) return null;
  if (!res.ok) throw new Error(`loading class ${classId}: ${res.status}`);
  return (await res.json()) as GymClass;
}

async function saveAttendees(classId: string, attendees: string[], signal: AbortSignal): Promise<void> {
  const res = await fetch(`${API}/classes/${classId}/attendees`, {
    method: "PUT",
    headers: { "content-type": "application/json" },
    body: JSON.stringify(attendees),
    signal,
  });
  if (!res.ok) throw new Error(`saving attendees of ${classId}: ${res.status}`);
}

export async function POST(
  request: Request,
  { params }: { params: Promise<{ classId: string }> },
): Promise<Response> {
  const { classId } = await params;
  const memberId = request.headers.get("x-member-id");
  if (!memberId) return json({ error: "Please log in" }, 401);

  const lockKey = `lock:class:${classId}`;

  try {
    const signal = AbortSignal.timeout(8_000);
    const locked = await redis.set(lockKey, memberId, { nx: true, px: LOCK_TTL_MS });
    if (!locked) {
      return json({ error: "Someone else is booking right now, please try again" }, 409);
    }

    const gymClass = await loadClass(classId, signal);
    if (!gymClass) return json({ error: "Class not found" }, 404);

    if (gymClass.attendees.includes(memberId)) {
      return json({ booked: true, title: gymClass.title });
    }
    if (gymClass.attendees.length >= gymClass.capacity) {
      return json({ error: "Class is full" }, 410);
    }

    await saveAttendees(classId, [...gymClass.attendees, memberId], signal);
    return json({ booked: true, title: gymClass.title }, 201);
  } catch (err) {
    console.error("booking failed", err);
    return json({ error: "Booking failed" }, 500);
  } finally {
    // Always free the class for the next booking
    await redis.del(lockKey);
  }
}
