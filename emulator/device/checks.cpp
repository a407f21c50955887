// The checks: bounds and alignment, bits never written, global memory outside the arguments, order between pipes.
#include "core.h"
#include <cstdarg>
#include <cstdio>

const char *const PIPE_NAMES[PIPES] = {"S", "V", "MTE2", "MTE3"};
thread_local Core *core __attribute__((tls_model("initial-exec"))) = nullptr;

static void keep(const char *check, const char *format, va_list arguments) {
  for (u64 i = 0; i < core->report_count; i++)
    if (core->reports[i].line == core->line && !strcmp(core->reports[i].check, check)) return;
  if (core->report_count >= MAX_REPORTS) return;
  Report &entry = core->reports[core->report_count++];
  snprintf(entry.check, sizeof entry.check, "%s", check);
  vsnprintf(entry.text, sizeof entry.text, format, arguments);
  entry.program = core->program;
  entry.line = core->line;
}

void report(const char *check, const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  keep(check, format, arguments);
  va_end(arguments);
}

void fatal(const char *check, const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  keep(check, format, arguments);
  va_end(arguments);
  // Compiled kernels hold nothing that needs a destructor; an intrinsic loses a lane buffer at worst.
  longjmp(core->leave, 1);
}

bool in_ub(const void *pointer) { return (u8 *)pointer >= core->ub && (u8 *)pointer < core->ub + core->ub_bytes; }

// ---- order between pipes: a vector clock per pipe, and per 32-byte block who wrote last and who has read since, and
// which bytes.
// seen[p][q] is the last instruction of pipe q that is known to be complete before what pipe p issues next.

void issue(Pipe pipe) {
  core->epoch[pipe]++;
  if (pipe == S) return;
  // The scalar unit dispatches: what it knows to be complete is complete before anything it dispatches. Its own stores
  // are not, unless it heard back from a pipe that waited for them: seen[S][S] says which.
  for (int q = 0; q < PIPES; q++)
    if (core->seen[pipe][q] < core->seen[S][q]) core->seen[pipe][q] = core->seen[S][q];
}

static void unordered(const char *what, const char *name, Pipe pipe, bool write, const char *other, u8 other_pipe,
                      u32 other_line, u64 block) {
  report("hazard", "%s: %s on %s %s UB %llu..%llu, used before by %s on %s (module line %u) with nothing ordering them",
         what, name, PIPE_NAMES[pipe], write ? "writes" : "reads", (unsigned long long)(block * BLOCK),
         (unsigned long long)((block + 1) * BLOCK), other, PIPE_NAMES[other_pipe], other_line);
}

// The bytes of a block that an access from `low` up to `high` covers, one bit each.
static u32 bytes_of(u64 block, u64 low, u64 high) {
  const u64 first = low > block * BLOCK ? low - block * BLOCK : 0;
  const u64 end = high < (block + 1) * BLOCK ? high - block * BLOCK : BLOCK;
  return (u32)(((1ull << (end - first)) - 1) << first);
}

static void order(const char *name, Pipe pipe, u64 low, u64 high, bool write) {
  const u32 now = core->epoch[pipe];
  u32 *const seen = core->seen[pipe];
  for (u64 block = low / BLOCK; block * BLOCK < high; block++) {
    Access &a = core->access[block];
    const u32 bytes = bytes_of(block, low, high);
    if (a.write_bytes & bytes && a.write_epoch > seen[a.write_pipe]) {
      // Within a pipe, writes complete in order, and so do a read and a later write (inferred, SEMANTICS.md); a vector
      // read after a vector write is the one that needs a barrier. An instruction does not race with itself.
      const bool same = a.write_pipe == pipe;
      if (same ? pipe == V && !write && a.write_epoch != now : true)
        unordered(write ? "WAW" : "RAW", name, pipe, write, a.writer, a.write_pipe, a.write_line, block);
    }
    if (write) {
      for (u8 q = 0; q < PIPES; q++) {
        if (q != pipe && a.read_bytes[q] & bytes && a.read_epoch[q] > seen[q])
          unordered("WAR", name, pipe, true, a.reader[q], q, a.read_line[q], block);
        a.read_bytes[q] &= ~bytes;
      }
      a.write_bytes = a.write_pipe == pipe ? a.write_bytes | bytes : bytes;
      a.write_epoch = now;
      a.write_pipe = pipe;
      a.write_line = core->line;
      a.writer = name;
    } else {
      a.read_bytes[pipe] |= bytes;
      a.read_epoch[pipe] = now;
      a.read_line[pipe] = core->line;
      a.reader[pipe] = name;
    }
  }
}

void touch(const char *name, Pipe pipe, const void *start, u64 bytes, bool write) {
  if (!bytes) return;
  const u8 *low = (const u8 *)start;
  if (low < core->ub || low + bytes > core->ub + core->ub_bytes)
    fatal("ub bounds", "%s on %s %s UB %lld..%lld, outside 0..%llu", name, PIPE_NAMES[pipe], write ? "writes" : "reads",
          (long long)(low - core->ub), (long long)(low - core->ub + bytes), (unsigned long long)core->ub_bytes);
  if (core->launch->checks) order(name, pipe, ub_offset(low), ub_offset(low) + bytes, write);
}

void aligned(const char *name, const void *start) {
  if ((u64)start % BLOCK)
    report("alignment", "%s: UB address %lld is not a multiple of 32", name, (long long)((const u8 *)start - core->ub));
}

void gm_access(const char *name, const void *start, u64 bytes, bool write) {
  if (!bytes) return;
  const u8 *low = (const u8 *)start;
  const Range *nearest = nullptr;
  u64 distance = ~0ull;
  for (u64 i = 0; i < core->launch->gm_count; i++) {
    const Range &range = core->launch->gm[i];
    if (low >= range.low && low + bytes <= range.high) return;
    const u64 away = low < range.low ? range.low - low : low + bytes - range.high;
    if (away < distance) distance = away, nearest = &range;
  }
  if (!nearest) fatal("gm bounds", "%s accesses global memory, but no tensor was passed in", name);
  fatal("gm bounds", "%s %s %llu bytes at GM %p; the nearest tensor argument is %p..%p", name,
        write ? "writes" : "reads", (unsigned long long)bytes, start, (void *)nearest->low, (void *)nearest->high);
}

// ---- bits never written

static u64 padded(u64 bytes) { return (bytes + BLOCK - 1) / BLOCK; }

bool any_taint(const void *start, u64 bytes) {
  if (!bytes || !core->launch->checks) return false;
  const u64 first = ub_offset(start) / BLOCK, last = (ub_offset(start) + bytes - 1) / BLOCK;
  for (u64 block = first; block <= last; block++)
    if (core->tainted[block]) {
      const u8 *taint = taint_at(start);
      for (u64 i = 0; i < bytes; i++)
        if (taint[i]) return true;
      return false;
    }
  return false;
}

static void refresh(u64 block) {
  u64 words[BLOCK / 8];
  memcpy(words, core->taint + block * BLOCK, BLOCK);
  core->tainted[block] = (words[0] | words[1] | words[2] | words[3]) != 0;
}

void set_taint(const void *start, u64 bytes, u8 value) {
  if (!bytes || !core->launch->checks) return;
  const u64 offset = ub_offset(start), first = offset / BLOCK, last = (offset + bytes - 1) / BLOCK;
  if (value) {
    memset(core->taint + offset, value, bytes);
    memset(core->tainted + first, 1, last - first + 1);
    return;
  }
  for (u64 block = first; block <= last; block++) {
    if (!core->tainted[block]) continue;
    const u64 low = block == first ? offset : block * BLOCK;
    const u64 high = block == last ? offset + bytes : (block + 1) * BLOCK;
    memset(core->taint + low, 0, high - low);
    refresh(block);
  }
}

void put_taint(const void *start, const void *bits, u64 bytes) {
  if (!bytes || !core->launch->checks) return;
  const u64 offset = ub_offset(start), first = offset / BLOCK;
  memcpy(core->taint + offset, bits, bytes);
  for (u64 block = first; block < first + padded(offset % BLOCK + bytes); block++) refresh(block);
}
