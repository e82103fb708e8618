"""Atomic operations in Redis: Lua scripts that use the clock of Redis, so hosts' clocks may differ.

A host that is connected has an id in the sorted set of hosts, with the time until which it counts as alive.
Of each limit on what goes on at a time there is a hash: how many each host has under way.  What a host that
is not alive has there counts for nothing.  An id is used for one connection: what Redis finds on a connection
that was given up, late, comes from an id that is gone, and counts for nothing either.

A window of a minute is a list of buckets and a hash of what is in each, with the sum under ``t``.  A bucket
is named by the millisecond in which it ends, and counts until 60 s after that: up to its width too long, and
never too short.  What requests hold in it stands in another hash, by hosts.  Where shares are warned of,
``w`` is the largest that was warned of and not fallen below since.

A total of a period is a hash: ``u`` what is used, ``h:HOST`` what the requests of a host hold, ``n`` how
often it was reset, ``w`` the share that was warned of, ``m`` what the row allows, ``d`` what it is.  It is
there for 40 days after its period.  Sums are 64-bit integers, compared below 2^53, where Lua's numbers are
exact.  ``c:HOST`` is how many requests hold that.  What a host held that is not alive counts as used, and is
remembered as ``f:HOST``: should that host return under another id, it is taken back, which raises ``n``.
Hosts send the highest ``n`` and ``u`` that they have seen, so that a Redis that has lost its memory goes on
from there.

A script may be executed though its answer is lost.  What a host holds it states anew when it is back.  What
is added has a number: Redis keeps that of the last end, and the buckets of what began and was not said to be
known.  What a host has counted alone, and may send again in its next life, has a name.

Sources: the command reference of Redis, "Scripting with Lua".
"""

from __future__ import annotations

from collections.abc import Callable
from hashlib import sha1
from typing import Any, Final, Generic, TypeVar

from mgw.redis.lua import COMMON
from mgw.redis.replies import (
    read_beat,
    read_begun,
    read_cooldowns,
    read_count,
    read_ended,
    read_executed,
    read_state,
)

T = TypeVar("T")

HOST_MS: Final = 12_000
"""The time after which a host that has said nothing counts as dead."""
FINE_MS: Final = 10
"""The width of a bucket, where there are at most :data:`FINE_LIMIT` of them."""
COARSE_MS: Final = 100
FINE_LIMIT: Final = 6000
FLIGHT_MS: Final = 60_000
"""How long a hash of what is under way is kept, unless a host with something in it says that it lives."""

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
if not is_alive(KEYS[1], ARGV[1], now) then return {-1, 0, 0, {}, {}} end
local rows, totals = (#KEYS - 3) / 2, {}
local function ms_until_room(row, i, a)
  local kind, most, size = ARGV[a], tonumber(ARGV[a + 1]), tonumber(ARGV[a + 3])
  if kind == 'total' or kind == 'budget' then
    local total = find_total(KEYS[1], KEYS[i], tonumber(ARGV[a + 4]), tonumber(ARGV[a + 5]), now)
    totals[row] = total
    if most == 0 or total.u + total.h < most then return 0 end
    if kind == 'budget' and total.u < most then return 1000 end
    return math.max(1, size - now)
  end
  if most == 0 then return 0 end
  if kind == 'none' then return under_way(KEYS[1], KEYS[i], now) >= most and 1000 or 0 end
  local held = kind == 'reserved' and minute_held(KEYS[1], KEYS[i], KEYS[i + 1], now) or 0
  return wait(KEYS[i], KEYS[i + 1], most, held, now)
end
local found, longest = 0, 0
for row = 0, rows - 1 do
  local ms = ms_until_room(row, 4 + 2 * row, 4 + 7 * row)
  if ms > longest then found, longest = row, ms end
end
local buckets, sums = {}, {}
for row = 0, rows - 1 do
  local i, a = 4 + 2 * row, 4 + 7 * row
  local kind, held, size = ARGV[a], tonumber(ARGV[a + 2]), tonumber(ARGV[a + 3])
  buckets[row + 1] = ''
  if longest > 0 then
    held = 0
  elseif kind == 'none' then
    redis.call('HINCRBY', KEYS[i], ARGV[1], held)
    redis.call('PEXPIRE', KEYS[i], 60000)
  elseif kind == 'reserved' then
    redis.call('HINCRBY', KEYS[i + 1] .. ':held', ARGV[1], held)
    redis.call('PEXPIRE', KEYS[i + 1] .. ':held', 60000)
  elseif kind == 'minute' and held > 0 then
    if ARGV[a + 6] ~= '' then fall(KEYS[i], KEYS[i + 1], ARGV[a + 6], now) end
    buckets[row + 1] = add(KEYS[i], KEYS[i + 1], size, held, now)
  elseif held > 0 then
    redis.call('HINCRBY', KEYS[i], 'h:' .. ARGV[1], ARGV[a + 2])
    redis.call('HINCRBY', KEYS[i], 'c:' .. ARGV[1], 1)
  end
  if totals[row] then
    keep_total(KEYS[2], KEYS[i], size, ARGV[a + 6], now)
    redis.call('HSET', KEYS[i], 'm', ARGV[a + 1])
    local total = totals[row]
    sums[#sums + 1] = {total.u, total.h + held, total.n, total.lost, total.requests}
  end
end
for number in string.gmatch(ARGV[3], '%d+') do redis.call('HDEL', KEYS[3], number) end
if ARGV[2] ~= '0' and longest == 0 then
  redis.call('HSET', KEYS[3], ARGV[2], table.concat(buckets, ' '))
  redis.call('PEXPIRE', KEYS[3], 61000)
end
if longest > 0 then return {0, found, longest, {}, sums} end
return {1, 0, 0, buckets, sums}
"""

_END: Final = """
local now = now_ms()
if not is_alive(KEYS[1], ARGV[1], now) then return {} end
redis.call('SET', KEYS[3], ARGV[2], 'PX', 3456000000)
local sums = {}
for row = 0, (#KEYS - 3) / 2 - 1 do
  local i, a = 4 + 2 * row, 3 + 9 * row
  local kind, bucket, change, held = ARGV[a], ARGV[a + 1], tonumber(ARGV[a + 2]), tonumber(ARGV[a + 3])
  local size, shares = tonumber(ARGV[a + 4]), ARGV[a + 7]
  if kind == 'warn' then
    local number, key, row = under_way(KEYS[1], KEYS[i], now), KEYS[i] .. ':warned', ARGV[a + 8]
    local warned, reached = tonumber(redis.call('HGET', key, row) or 0), share_of(shares, number)
    redis.call('HSET', key, row, share_of(shares, number - 1))
    redis.call('PEXPIRE', key, 3600000)
    sums[#sums + 1] = {0, 0, 0, 0, 0, warned, reached}
  elseif kind == 'none' then
    if redis.call('HINCRBY', KEYS[i], ARGV[1], change) <= 0 then redis.call('HDEL', KEYS[i], ARGV[1]) end
  elseif kind == 'total' then
    local total = find_total(KEYS[1], KEYS[i], tonumber(ARGV[a + 5]), tonumber(ARGV[a + 6]), now)
    if held > 0 then
      local left = redis.call('HINCRBY', KEYS[i], 'h:' .. ARGV[1], '-' .. ARGV[a + 3])
      if left <= 0 then
        redis.call('HDEL', KEYS[i], 'h:' .. ARGV[1], 'c:' .. ARGV[1])
      else
        redis.call('HINCRBY', KEYS[i], 'c:' .. ARGV[1], -1)
      end
      total.h = total.h - held - math.min(left, 0)
    end
    total.u = redis.call('HINCRBY', KEYS[i], 'u', ARGV[a + 2])
    keep_total(KEYS[2], KEYS[i], size, ARGV[a + 8], now)
    local reached = share_of(shares, total.u)
    if reached > total.w then redis.call('HSET', KEYS[i], 'w', reached) end
    local warned = math.max(reached, total.w)
    sums[#sums + 1] = {total.u, total.h, total.n, total.lost, total.requests, total.w, warned}
  elseif kind == 'aged' then
    add_aged(KEYS[i], KEYS[i + 1], size, bucket, now)
  else
    if held > 0 then redis.call('HINCRBY', KEYS[i + 1] .. ':held', ARGV[1], -held) end
    if shares ~= '' then fall(KEYS[i], KEYS[i + 1], shares, now) end
    if change > 0 then
      add(KEYS[i], KEYS[i + 1], size, change, now)
    elseif change < 0 and bucket ~= '' and redis.call('HEXISTS', KEYS[i + 1], bucket) == 1 then
      redis.call('HINCRBY', KEYS[i + 1], 't', change)
      local left = redis.call('HINCRBY', KEYS[i + 1], bucket, change)
      if left <= 0 then redis.call('HDEL', KEYS[i + 1], bucket) end
    end
    if shares ~= '' and kind == 'minute' then
      local warned = tonumber(redis.call('HGET', KEYS[i + 1], 'w') or 0)
      local reached = minute_share(KEYS[i], KEYS[i + 1], shares, now)
      if reached ~= warned then
        redis.call('HSET', KEYS[i + 1], 'w', reached)
        redis.call('PEXPIRE', KEYS[i + 1], 61000)
      end
      sums[#sums + 1] = {0, 0, 0, 0, 0, warned, reached}
    end
  end
end
return {1, sums}
"""

_RETURN: Final = """
local now = now_ms()
local known, totals, flights, executed = tonumber(ARGV[2]), tonumber(ARGV[3]), tonumber(ARGV[4]), {}
for i = 1, known do
  redis.call('ZREM', KEYS[1], ARGV[4 + i])
  executed[i] = {tonumber(redis.call('GET', KEYS[1 + 2 * i]) or 0), redis.call('HGETALL', KEYS[2 + 2 * i])}
end
local k, a = 3 + 2 * known, 5 + known
for i = k, k + totals - 1 do
  local key = KEYS[i]
  for id = 1, known do
    local host = ARGV[4 + id]
    redis.call('HDEL', key, 'h:' .. host, 'c:' .. host)
    local counted = redis.call('HGET', key, 'f:' .. host)
    if counted then
      redis.call('HDEL', key, 'f:' .. host)
      if redis.call('HINCRBY', key, 'u', '-' .. counted) < 0 then redis.call('HSET', key, 'u', 0) end
      redis.call('HINCRBY', key, 'n', 1)
    end
  end
  if tonumber(ARGV[a]) > 0 then
    redis.call('HSET', key, 'h:' .. ARGV[1], ARGV[a], 'c:' .. ARGV[1], ARGV[a + 1])
  end
  keep_total(KEYS[2], key, tonumber(ARGV[a + 2]), ARGV[a + 3], now)
  a = a + 4
end
k = k + totals
for i = k, k + flights - 1 do
  for id = 1, known do redis.call('HDEL', KEYS[i], ARGV[4 + id]) end
  if tonumber(ARGV[a]) > 0 then
    redis.call('HSET', KEYS[i], ARGV[1], ARGV[a])
    redis.call('PEXPIRE', KEYS[i], 60000)
  end
  a = a + 1
end
k = k + flights
while k <= #KEYS do
  local count = tonumber(ARGV[a])
  take_over(k, count, a + 1, now)
  k, a = k + 1 + count, a + 1 + 5 * count
end
return executed
"""

_TAKE_OVER: Final = """
local now = now_ms()
if not is_alive(KEYS[1], ARGV[1], now) then return {} end
return {1, take_over(3, #KEYS - 3, 2, now)}
"""

_STATE: Final = """
local now, found, size = now_ms(), {}, 0
local after = '(' .. string.format('%.0f', now)
for _, key in ipairs(redis.call('ZRANGEBYSCORE', KEYS[2], after, '+inf', 'LIMIT', 0, 10000)) do
  local total = find_total(KEYS[1], key, 0, 0, now, true)
  local more = redis.call('HMGET', key, 'd', 'm')
  if more[1] then
    size = size + #more[1]
    if size > 2097152 then break end
    found[#found + 1] = {more[1], tonumber(more[2] or 0), total.u, total.h}
  end
end
return found
"""

_RESET: Final = """
local now, changed = now_ms(), 0
for i = 3, #KEYS do
  local a = 5 + 2 * (i - 3)
  keep_total(KEYS[2], KEYS[i], tonumber(ARGV[a]), ARGV[a + 1], now)
end
local after, begins = '(' .. string.format('%.0f', now), ARGV[4]
for _, key in ipairs(redis.call('ZRANGEBYSCORE', KEYS[2], after, '+inf')) do
  local about = string.sub(key, 1, #begins) == begins and redis.call('HGET', key, 'd')
  local holder, name = string.match(about or '', '^([^\\n]*)\\n([^\\n]*)\\n')
  if holder == ARGV[1] and (ARGV[2] == '' or name == ARGV[2]) then
    find_total(KEYS[1], key, 0, 0, now)
    for field in pairs(fields_of(key)) do
      if string.sub(field, 1, 2) == 'f:' then redis.call('HDEL', key, field) end
    end
    redis.call('HSET', key, 'u', ARGV[3], 'w', 0)
    redis.call('HINCRBY', key, 'n', 1)
    changed = changed + 1
  end
end
return changed
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
        self.text = COMMON + body
        self.digest = sha1(self.text.encode("ascii"), usedforsecurity=False).hexdigest()


HEARTBEAT: Final = Script(_HEARTBEAT, read_beat)
"""Say that a host is alive.  Keys: hosts, and hashes to keep.  Arguments: id, ``new`` or empty, the id that
it had before, milliseconds.  Answers whether it still was, and how many there are."""
BEGIN: Final = Script(_BEGIN, read_begun)
"""Count what begins.  Keys: hosts, totals, the buckets of what began, and two for each row.  Arguments: id,
the number of this beginning (0: it has no bucket), the numbers of others whose answers have come, and for
each row its kind, its limit (0: none), what is held, the width of a bucket or the end of the period, how
often the total was reset and what was used of it at most as far as the host knows, and what the total is, or
the shares of a minute to warn of.  Answers 1 and for each row the bucket of a minute's window in which
something is held, or 0, the row that stands against it, counted from 0, and for how many milliseconds, or -1:
the id is gone; then the sums of the totals."""
END: Final = Script(_END, read_ended)
"""Count the end of it.  Keys: hosts, totals, the number of the last end, and two for each row.  Arguments:
id, the number of this end, and for each row its kind, the bucket to take from, what is to be added, what was
held, the width of a bucket or the end of the period, resets and use as above, the shares to warn of, and what
the total is.  The kind ``warn`` looks at what is in flight, ``added`` adds without a warning, and ``aged``
adds what was used a while ago: in place of a bucket it has milliseconds and amounts.  Answers the sums of
totals and of all rows that may warn, each with the share that was warned of before and now; nothing: the id
is gone."""
RETURN: Final = Script(_RETURN, read_executed)
"""Say what a host holds that had other ids before.  Keys: hosts, totals, for each of these ids the number of
its last end and the buckets of what it began, then totals, hashes of what is under way, and parts as below.
Arguments: id, how many ids, totals and hashes, the ids, for each total what is held by how many requests, the
end of the period, and what the total is, for each hash how many are under way, and for each part how many
totals, and these.  Answers the numbers and buckets."""
TAKE_OVER: Final = Script(_TAKE_OVER, read_ended)
"""Add what a host has counted alone, unless that was added before.  Keys: hosts, totals, the name of it, and
totals.  Arguments: id, and for each total the amount, the end of the period, resets and use as above, and
what the total is.  What is negative was counted too much, which raises ``n``.  Answers as an end does."""
STATE: Final = Script(_STATE, read_state)
"""Return all totals of periods that are not over.  Keys: hosts, totals.  What a host held that is not alive
is shown as used; the next request or end takes it over, which the log then says."""
RESET: Final = Script(_RESET, read_count)
"""Set what is used.  Keys: hosts, totals, and totals that may be new.  Arguments: holder, name of the row or
empty, the amount, how the keys of the holder begin, and for each of these totals the end of its period and
what it is.  Answers how many."""
COOL_DOWN: Final = Script(_COOL_DOWN, read_count)
"""Begin a cooldown.  Keys: cooldowns, the channel.  Arguments: the account, milliseconds, what to publish."""
COOLDOWNS: Final = Script(_COOLDOWNS, read_cooldowns)
"""Return what is in cooldown, each with its milliseconds.  Keys: cooldowns."""
SCRIPTS: Final[tuple[Script[Any], ...]] = (
    *(HEARTBEAT, BEGIN, END, RETURN, TAKE_OVER, STATE, RESET),
    *(COOL_DOWN, COOLDOWNS),
)
