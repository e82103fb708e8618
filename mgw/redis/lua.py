"""Functions in Lua that the scripts share (:mod:`mgw.redis.scripts`, which says what they keep)."""

from __future__ import annotations

from typing import Final

COMMON: Final = """
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
local function wait(list, hash, limit, held, now)
  expire(list, hash, now)
  local excess = tonumber(redis.call('HGET', hash, 't') or 0) + held - limit
  if excess < 0 then return 0 end
  local first = 0
  while true do
    local ends = redis.call('LRANGE', list, first, first + 99)
    if #ends == 0 then return 1000 end
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
local function add_aged(list, hash, width, ages, now)
  expire(list, hash, now)
  local ends = redis.call('LRANGE', list, 0, -1)
  local known, is_new = {}, false
  for _, e in ipairs(ends) do known[e] = true end
  for age, amount in string.gmatch(ages, '(%d+):(%d+)') do
    local e = (math.floor((now - tonumber(age)) / width) + 1) * width
    if e + 60000 > now then
      e = string.format('%.0f', e)
      if not known[e] then
        known[e], is_new = true, true
        ends[#ends + 1] = e
      end
      redis.call('HINCRBY', hash, e, amount)
      redis.call('HINCRBY', hash, 't', amount)
    end
  end
  if is_new then
    table.sort(ends, function(one, other) return tonumber(one) < tonumber(other) end)
    redis.call('DEL', list)
    for _, e in ipairs(ends) do redis.call('RPUSH', list, e) end
  end
  redis.call('PEXPIRE', list, 61000)
  redis.call('PEXPIRE', hash, 61000)
end
local function fields_of(key)
  local flat, found = redis.call('HGETALL', key), {}
  for i = 1, #flat, 2 do found[flat[i]] = flat[i + 1] end
  return found
end
local function share_of(shares, amount)
  local reached = 0
  for share, least in string.gmatch(shares, '(%d+):(%d+)') do
    if amount >= tonumber(least) then reached = math.max(reached, tonumber(share)) end
  end
  return reached
end
local function minute_share(list, hash, shares, now)
  expire(list, hash, now)
  return share_of(shares, tonumber(redis.call('HGET', hash, 't') or 0))
end
local function fall(list, hash, shares, now)
  local warned = tonumber(redis.call('HGET', hash, 'w') or 0)
  local reached = minute_share(list, hash, shares, now)
  if reached < warned then redis.call('HSET', hash, 'w', reached) end
end
local function find_total(hosts, key, resets, used, now, only_looks)
  local found = fields_of(key)
  local total = {u = tonumber(found.u or 0), n = tonumber(found.n or 0), w = tonumber(found.w or 0), h = 0}
  total.lost, total.requests = 0, 0
  if resets > total.n or (resets == total.n and used > total.u) then
    total.u, total.n = used, resets
    redis.call('HSET', key, 'u', string.format('%.0f', used), 'n', resets)
  end
  for name, amount in pairs(found) do
    if string.sub(name, 1, 2) == 'h:' then
      local host = string.sub(name, 3)
      if is_alive(hosts, host, now) then
        total.h = total.h + tonumber(amount)
      elseif only_looks then
        total.u = total.u + tonumber(amount)
      else
        redis.call('HDEL', key, name, 'c:' .. host)
        if tonumber(amount) > 0 then
          total.u = redis.call('HINCRBY', key, 'u', amount)
          total.lost = total.lost + tonumber(amount)
          total.requests = total.requests + tonumber(found['c:' .. host] or 0)
          redis.call('HSET', key, 'f:' .. host, amount)
        end
      end
    end
  end
  return total
end
local function keep_total(index, key, ends, about, now)
  if redis.call('HSETNX', key, 'd', about) == 1 then
    redis.call('ZADD', index, string.format('%.0f', ends), key)
    redis.call('ZREMRANGEBYSCORE', index, '-inf', string.format('%.0f', now - 3456000000))
  end
  if ends < 9007199254740992 then
    redis.call('PEXPIRE', key, string.format('%.0f', math.max(0, ends - now) + 3456000000))
  end
end
local function take_over(first, count, a, now)
  local is_new, sums = redis.call('GET', KEYS[first]) == false, {}
  redis.call('SET', KEYS[first], 1, 'PX', 3456000000)
  for i = first + 1, first + count do
    local amount, ends = tonumber(ARGV[a]), tonumber(ARGV[a + 1])
    local total = find_total(KEYS[1], KEYS[i], tonumber(ARGV[a + 2]), tonumber(ARGV[a + 3]), now)
    if is_new then
      total.u = redis.call('HINCRBY', KEYS[i], 'u', ARGV[a])
      if amount < 0 then total.n = redis.call('HINCRBY', KEYS[i], 'n', 1) end
    end
    keep_total(KEYS[2], KEYS[i], ends, ARGV[a + 4], now)
    sums[#sums + 1] = {total.u, total.h, total.n, total.lost, total.requests, 0, 0}
    a = a + 5
  end
  return sums
end
local function minute_held(hosts, list, hash, now)
  local key, total = hash .. ':held', 0
  for host, amount in pairs(fields_of(key)) do
    if is_alive(hosts, host, now) then
      total = total + tonumber(amount)
    else
      redis.call('HDEL', key, host)
      if tonumber(amount) > 0 then add(list, hash, 100, amount, now) end
    end
  end
  return total
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
