"""Atomic operations in Redis: Lua scripts that use the clock of Redis, so hosts' clocks may differ.

A host that is connected has an id in the sorted set of hosts, with the time until which it counts as alive.
Of each limit on what goes on at a time there is a hash: how many each host has under way.  What a host that
is not alive has there counts for nothing.  An id is used for one connection: what Redis finds on a connection
that was given up, late, comes from an id that is gone, and counts for nothing either.

A window of a minute is a list of buckets and a hash of what is in each, with the sum under ``t``.  A bucket
is named by the millisecond in which it ends, and counts until 60 s after that: up to its width too long, and
never too short.  A period of the calendar is a number, which is there for a day after its end: a request that
ends late belongs to it.

What begins and what ends is counted by rows, which are those of :mod:`mgw.clients.limits`: two keys for each,
of which most need but the first, and a few arguments.

Sources: the command reference of Redis, "Scripting with Lua".
"""

from __future__ import annotations

from collections.abc import Callable
from hashlib import sha1
from typing import Any, Final, Generic, TypeVar

from mgw.redis.replies import read_beat, read_begun, read_cooldowns, read_count

T = TypeVar("T")

HOST_MS: Final = 12_000
"""The time after which a host that has said nothing counts as dead."""
FINE_MS: Final = 10
"""The width of a bucket, where there are at most :data:`FINE_LIMIT` of them."""
COARSE_MS: Final = 100
FINE_LIMIT: Final = 6000
FLIGHT_MS: Final = 60_000
"""How long a hash of what is under way is kept, unless a host with something in it says that it lives."""

_COMMON: Final = """
local function now_ms()
  local time = redis.call('TIME')
  return time[1] * 1000 + math.floor(time[2] / 1000)
end
local function is_alive(hosts, host, now)
  local until_ms = redis.call('ZSCORE', hosts, host)
  return until_ms and tonumber(until_ms) > now
end
local function expire(list, hash, now)
  local newest = redis.call('LINDEX', list, -1)
  if newest and tonumber(newest) > now + 60000 then
    redis.call('DEL', list, hash)
    return
  end
  while true do
    local oldest = redis.call('LINDEX', list, 0)
    if not oldest or tonumber(oldest) + 60000 > now then return end
    redis.call('LPOP', list)
    local amount = redis.call('HGET', hash, oldest)
    if amount then
      redis.call('HDEL', hash, oldest)
      redis.call('HINCRBY', hash, 't', -amount)
    end
  end
end
local function wait(list, hash, limit, now)
  expire(list, hash, now)
  local excess = tonumber(redis.call('HGET', hash, 't') or 0) - limit
  if excess < 0 then return 0 end
  local first = 0
  while true do
    local ends = redis.call('LRANGE', list, first, first + 99)
    if #ends == 0 then return 0 end
    for _, e in ipairs(ends) do
      excess = excess - tonumber(redis.call('HGET', hash, e) or 0)
      if excess < 0 then return tonumber(e) + 60000 - now end
    end
    first = first + 100
  end
end
local function add(list, hash, width, amount, now)
  expire(list, hash, now)
  local e = (math.floor(now / width) + 1) * width
  local newest = redis.call('LINDEX', list, -1)
  if newest and tonumber(newest) >= e then
    e = tonumber(newest)
  else
    redis.call('RPUSH', list, string.format('%.0f', e))
  end
  e = string.format('%.0f', e)
  redis.call('HINCRBY', hash, e, amount)
  redis.call('HINCRBY', hash, 't', amount)
  redis.call('PEXPIRE', list, 61000)
  redis.call('PEXPIRE', hash, 61000)
  return e
end
local function add_to_period(sum, ends, amount, now)
  redis.call('INCRBY', sum, amount)
  redis.call('PEXPIRE', sum, string.format('%.0f', math.max(0, ends - now) + 86400000))
end
local function under_way(hosts, hash, now)
  local total = 0
  local fields = redis.call('HGETALL', hash)
  for i = 1, #fields, 2 do
    if is_alive(hosts, fields[i], now) then
      total = total + tonumber(fields[i + 1])
    else
      redis.call('HDEL', hash, fields[i])
    end
  end
  return total
end
"""

_HEARTBEAT: Final = """
local now = now_ms()
if ARGV[2] ~= 'new' and not is_alive(KEYS[1], ARGV[1], now) then return {0, 0} end
if ARGV[3] ~= '' then redis.call('ZREM', KEYS[1], ARGV[3]) end
redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', now)
redis.call('ZADD', KEYS[1], now + ARGV[4], ARGV[1])
redis.call('PEXPIRE', KEYS[1], 3600000)
for i = 2, #KEYS do redis.call('PEXPIRE', KEYS[i], 60000) end
return {1, redis.call('ZCARD', KEYS[1])}
"""

_BEGIN: Final = """
local now = now_ms()
if not is_alive(KEYS[1], ARGV[1], now) then return {-1, 0, 0, {}} end
local function ms_until_room(i, a)
  local most, size = tonumber(ARGV[a + 1]), tonumber(ARGV[a + 3])
  if most == 0 then return 0 end
  if ARGV[a] == 'none' then return under_way(KEYS[1], KEYS[i], now) >= most and 1000 or 0 end
  if ARGV[a] == 'minute' then return wait(KEYS[i], KEYS[i + 1], most, now) end
  if tonumber(redis.call('GET', KEYS[i]) or 0) < most then return 0 end
  return math.max(1, size - now)
end
local found, longest = 0, 0
for row = 0, (#KEYS - 1) / 2 - 1 do
  local i, a = 2 + 2 * row, 2 + 4 * row
  local ms = ms_until_room(i, a)
  if ms > longest then found, longest = row, ms end
end
if longest > 0 then return {0, found, longest, {}} end
local buckets = {}
for row = 0, (#KEYS - 1) / 2 - 1 do
  local i, a = 2 + 2 * row, 2 + 4 * row
  local held, size = tonumber(ARGV[a + 2]), tonumber(ARGV[a + 3])
  buckets[row + 1] = ''
  if ARGV[a] == 'none' then
    redis.call('HINCRBY', KEYS[i], ARGV[1], held)
    redis.call('PEXPIRE', KEYS[i], 60000)
  elseif held > 0 and ARGV[a] == 'minute' then
    buckets[row + 1] = add(KEYS[i], KEYS[i + 1], size, held, now)
  elseif held > 0 then
    add_to_period(KEYS[i], size, held, now)
  end
end
return {1, 0, 0, buckets}
"""

_END: Final = """
local now = now_ms()
for row = 0, (#KEYS - 1) / 2 - 1 do
  local i, a = 2 + 2 * row, 2 + 4 * row
  local bucket, change, size = ARGV[a + 1], tonumber(ARGV[a + 2]), tonumber(ARGV[a + 3])
  if ARGV[a] == 'none' then
    if is_alive(KEYS[1], ARGV[1], now) and redis.call('HINCRBY', KEYS[i], ARGV[1], change) <= 0 then
      redis.call('HDEL', KEYS[i], ARGV[1])
    end
  elseif ARGV[a] ~= 'minute' then
    add_to_period(KEYS[i], size, change, now)
  elseif change > 0 then
    add(KEYS[i], KEYS[i + 1], size, change, now)
  elseif bucket ~= '' and redis.call('HEXISTS', KEYS[i + 1], bucket) == 1 then
    redis.call('HINCRBY', KEYS[i + 1], 't', change)
    local left = redis.call('HINCRBY', KEYS[i + 1], bucket, change)
    if left <= 0 then redis.call('HDEL', KEYS[i + 1], bucket) end
  end
end
return 1
"""

_COOL_DOWN: Final = """
local now = now_ms()
redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', now)
if tonumber(ARGV[2]) > 0 then
  redis.call('ZADD', KEYS[1], now + ARGV[2], ARGV[1])
else
  redis.call('ZREM', KEYS[1], ARGV[1])
end
local last = redis.call('ZRANGE', KEYS[1], -1, -1, 'WITHSCORES')[2]
if last then redis.call('PEXPIREAT', KEYS[1], string.format('%.0f', last)) end
redis.call('PUBLISH', KEYS[2], ARGV[3])
return 1
"""

_COOLDOWNS: Final = """
local now = now_ms()
redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', now)
local found = redis.call('ZRANGE', KEYS[1], 0, -1, 'WITHSCORES')
for i = 2, #found, 2 do found[i] = string.format('%.0f', found[i] - now) end
return found
"""


class Script(Generic[T]):
    """A script, the digest by which Redis knows it once it was loaded, and how its answer is read."""

    def __init__(self, body: str, read: Callable[[Any], T]) -> None:
        self.read = read
        self.text = _COMMON + body
        self.digest = sha1(self.text.encode("ascii"), usedforsecurity=False).hexdigest()


HEARTBEAT: Final = Script(_HEARTBEAT, read_beat)
"""Say that a host is alive.  Keys: hosts, and hashes to keep.  Arguments: id, ``new`` or empty, the id that
it had before, milliseconds.  Answers whether it still was, and how many there are."""
BEGIN: Final = Script(_BEGIN, read_begun)
"""Count what begins.  Keys: hosts, and two for each row.  Arguments: id, and for each row its window, its
limit (0: none), what is held, and the width of a bucket or the end of the period.  Answers 1 and for each row
the bucket of a minute's window in which something is held, or 0, the row that stands against it, counted from
0, and for how many milliseconds, or -1: the id is gone."""
END: Final = Script(_END, read_count)
"""Count the end of it.  Keys: as before.  Arguments: id, and for each row its window, the bucket to take
from, what is to be added, and the width of a bucket or the end of the period."""
COOL_DOWN: Final = Script(_COOL_DOWN, read_count)
"""Begin a cooldown.  Keys: cooldowns, the channel.  Arguments: the account, milliseconds, what to publish."""
COOLDOWNS: Final = Script(_COOLDOWNS, read_cooldowns)
"""Return what is in cooldown, each with its milliseconds.  Keys: cooldowns."""
SCRIPTS: Final[tuple[Script[Any], ...]] = (HEARTBEAT, BEGIN, END, COOL_DOWN, COOLDOWNS)
