// Compare, select and reductions across lanes.
#include "lanes.h"

#define INTRINSIC extern "C" void

// Compares give one bit per lane. In norm mode there is no lane mask, so the last repeat reads past the operand when
// its length is no multiple of the width; those bits are not used. `lanes_left`, set from the length of the template
// call's operand, keeps these reads from being ordered against whoever owns the bytes behind it.
template <class T, class F>
static void compare(const char *name, u8 *dst, const Operand<T> &a, const Operand<T> *b, T scalar, u64 repeats, F f) {
  const Lanes lanes(repeats, REPEAT / sizeof(T), false);
  const u64 n = lanes.total;
  Lanes marked = lanes;
  if (!count_mode() && core->lanes_left >= 0) {
    marked.total = std::min<u64>(n, core->lanes_left);
    core->lanes_left -= marked.total;
  }
  issue(V);
  a.access(name, marked, false);
  if (b) b->access(name, marked, false);
  touch(name, V, dst, (n + 7) / 8, true);
  if (n) { // what is read but not marked must still exist
    const u64 r = lanes.repeats - 1, e = (n - 1) % lanes.width;
    if (!in_ub(a.at(r, e)) || (b && !in_ub(b->at(r, e)))) fatal("ub bounds", "%s reads past the end of UB", name);
  }
  const bool tainted = core->launch->checks && (a.any_taint(lanes) || (b && b->any_taint(lanes)));
  const bool dense = a.dense(lanes) && (!b || b->dense(lanes));
  u8 bits = 0, unknown = 0;
  for (u64 i = 0; i < n; i++) {
    const u8 *p = dense ? a.start + i * sizeof(T) : a.at(i / lanes.width, i % lanes.width);
    const u8 *q = !b ? nullptr : dense ? b->start + i * sizeof(T) : b->at(i / lanes.width, i % lanes.width);
    bits |= (u8)f(load<T>(p), q ? load<T>(q) : scalar) << (i % 8);
    if (tainted && (taint<T>(p) || (q && taint<T>(q)))) unknown |= 1 << (i % 8);
    if (i % 8 == 7 || i + 1 == n) {
      u8 *to = dst + i / 8;
      const u8 kept = i % 8 == 7 ? 0 : (u8)(0xff << (i % 8 + 1)); // count mode leaves the bits behind the last lane
      *to = (*to & kept) | bits;
      if (tainted || core->tainted[ub_offset(to) / BLOCK]) {
        const u8 state = (*taint_at(to) & kept) | unknown;
        put_taint(to, &state, 1);
      }
      bits = unknown = 0;
    }
  }
}

#define COMPARE(OP, TYPE, SIGN)                                                                                        \
  INTRINSIC hivm_VCMPV_##OP##_##TYPE(u8 *d, u8 *a, u8 *b, u64 c) {                                                     \
    const Binary g(c);                                                                                                 \
    const Operand<TYPE> x{a, g.a_block, g.a_repeat}, y{b, g.b_block, g.b_repeat};                                      \
    compare<TYPE>("VCMPV_" #OP "_" #TYPE, d, x, &y, 0, g.repeats, [](TYPE p, TYPE q) { return p SIGN q; });            \
    vector_step("VCMPV_" #OP "_" #TYPE, VCMP, Lanes(g.repeats, REPEAT / sizeof(TYPE)).repeats);                        \
  }
#define COMPARE_SCALAR(OP, TYPE, GIVEN, SIGN)                                                                          \
  INTRINSIC hivm_VCMPVS_##OP##_##TYPE(u8 *d, u8 *a, GIVEN scalar, u64 c) {                                             \
    const Unary g(c);                                                                                                  \
    const Operand<TYPE> x{a, g.src_block, g.src_repeat};                                                               \
    compare<TYPE>("VCMPVS_" #OP "_" #TYPE, d, x, nullptr, (TYPE)scalar, g.repeats,                                     \
                  [](TYPE p, TYPE q) { return p SIGN q; });                                                            \
    vector_step("VCMPVS_" #OP "_" #TYPE, VCMP, Lanes(g.repeats, REPEAT / sizeof(TYPE)).repeats);                       \
  }
#define COMPARES(OP, SIGN)                                                                                             \
  COMPARE(OP, f32, SIGN)                                                                                               \
  COMPARE(OP, f16, SIGN)                                                                                               \
  COMPARE_SCALAR(OP, f32, f32, SIGN)                                                                                   \
  COMPARE_SCALAR(OP, f16, f16, SIGN)
COMPARES(EQ, ==)
COMPARES(NE, !=)
COMPARES(LT, <)
COMPARES(GT, >)
COMPARES(GE, >=)
COMPARES(LE, <=)
COMPARE(EQ, s32, ==)
COMPARE_SCALAR(EQ, s32, u64, ==)

INTRINSIC hivm_SET_CMPMASK(u8 *from) {
  scalar_step();
  issue(V);
  touch("SET_CMPMASK", V, from, 16, false);
  memcpy(core->compare, from, 16);
  if (core->launch->checks) memcpy(core->compare_taint, taint_at(from), 16);
}

// Mode 0: the bits are in CMPMASK, the same for every repeat. Mode 1: bits at `b`, the other value in CMPMASK.
// Mode 2: bits at the address in CMPMASK.
template <class T> static void select(const char *name, u8 *dst, u8 *first, u8 *second, u64 config) {
  const Binary g(config);
  const u64 mode = (config >> 48) & 3;
  const Lanes lanes(g.repeats, REPEAT / sizeof(T));
  const Operand<T> a{first, g.a_block, g.a_repeat}, b{second, g.b_block, g.b_repeat}, d{dst, g.dst_block, g.dst_repeat};
  const bool checks = core->launch->checks;
  if (mode == 3) fatal("unsupported", "%s mode 3", name);
  if (mode == 2 && core->compare_taint[0])
    fatal("poison", "%s takes the address of its mask from bits never written", name);
  const u8 *bits = mode == 0 ? (const u8 *)core->compare : mode == 1 ? second : (const u8 *)core->compare[0];
  T other;
  memcpy(&other, core->compare, sizeof(T));
  Bits<T> other_taint;
  memcpy(&other_taint, core->compare_taint, sizeof(T));
  const u64 n = lanes.repeats * lanes.width, used = std::min(n, lanes.total);
  issue(V);
  a.access(name, lanes, false);
  if (mode == 1) aligned(name, second);
  else b.access(name, lanes, false);
  if (mode) touch(name, V, bits, (used + 7) / 8, false);
  d.access(name, lanes, true);
  const u8 *bits_taint = !checks ? nullptr : mode ? taint_at(bits) : (const u8 *)core->compare_taint;
  const bool bits_unknown =
      checks && (mode ? any_taint(bits, (used + 7) / 8) : (core->compare_taint[0] | core->compare_taint[1]) != 0);
  const bool tainted =
      checks && (bits_unknown || a.any_taint(lanes) || (mode != 1 ? b.any_taint(lanes) : other_taint != 0));
  if (mode && lanes.prefix && !tainted && a.dense(lanes) && d.dense(lanes) && (mode == 1 || b.dense(lanes))) {
    for (u64 i = 0; i < used; i++) {
      const T x = load<T>(first + i * sizeof(T)), y = mode == 1 ? other : load<T>(second + i * sizeof(T));
      store<T>(dst + i * sizeof(T), bit(bits[i / 8], i % 8) ? x : y);
    }
    set_taint(dst, used * sizeof(T), 0);
    return vector_step(name, VSEL, lanes.repeats);
  }
  T result[MAX_LANES];
  Bits<T> unknown[MAX_LANES];
  for (u64 r = 0; r < lanes.repeats; r++) {
    for (u64 e = 0; e < lanes.width; e++) {
      if (!lanes.active(r, e)) continue;
      const u64 at = (mode ? r * lanes.width : 0) + e;
      const bool chosen = bit(bits[at / 8], at % 8);
      result[e] = chosen ? load<T>(a.at(r, e)) : mode == 1 ? other : load<T>(b.at(r, e));
      unknown[e] = 0;
      if (tainted && bit(bits_taint[at / 8], at % 8)) unknown[e] = (Bits<T>)~(Bits<T>)0;
      else if (tainted) unknown[e] = chosen ? taint<T>(a.at(r, e)) : mode == 1 ? other_taint : taint<T>(b.at(r, e));
    }
    for (u64 e = 0; e < lanes.width; e++)
      if (lanes.active(r, e)) {
        store(d.at(r, e), result[e]);
        put_taint(d.at(r, e), &unknown[e], sizeof(T));
      }
  }
  vector_step(name, VSEL, lanes.repeats);
}
INTRINSIC hivm_VSEL_f32_1(u8 *d, u8 *a, u8 *b, u64 c) { select<u32>("VSEL_f32", d, a, b, c); }
INTRINSIC hivm_VSEL_f16_1(u8 *d, u8 *a, u8 *b, u64 c) { select<u16>("VSEL_f16", d, a, b, c); }

// ---- reductions: one result per repeat, per block, or per pair of lanes
enum Group { PER_REPEAT, PER_BLOCK, PER_PAIR };

template <class T, class F> static void reduce(const char *name, Group group, u8 *dst, u8 *src, u64 c, F f) {
  const Lanes lanes(c >> 56, REPEAT / sizeof(T));
  const u64 dst_repeat = c & 65535;
  const Operand<T> s{src, (c >> 16) & 65535, (c >> 32) & 65535};
  const u64 size = group == PER_REPEAT ? lanes.width : group == PER_BLOCK ? BLOCK / sizeof(T) : 2;
  // the destination stride counts elements, blocks of eight results and half repeats, in that order
  const u64 stride = dst_repeat * (group == PER_REPEAT ? sizeof(T) : group == PER_BLOCK ? 8 * sizeof(T) : REPEAT / 2);
  aligned(name, src);
  issue(V);
  s.access(name, lanes, false);
  T all = 0;
  Bits<T> all_taint = 0;
  bool started = false;
  for (u64 r = 0; r < lanes.repeats; r++)
    for (u64 first = 0; first < lanes.width; first += size) {
      T value = 0;
      Bits<T> unknown = 0;
      bool any = false;
      for (u64 e = first; e < first + size; e++) {
        if (!lanes.active(r, e)) continue;
        const T x = load<T>(s.at(r, e));
        value = any ? f(value, x) : x;
        if (core->launch->checks && taint<T>(s.at(r, e))) unknown = (Bits<T>)~(Bits<T>)0;
        any = true;
      }
      if (!any) continue;
      u8 *to = dst + r * stride + first / size * sizeof(T);
      touch(name, V, to, sizeof(T), true);
      store(to, value);
      put_taint(to, &unknown, sizeof(T));
      all = started ? f(all, value) : value;
      all_taint |= unknown;
      started = true;
    }
  core->extreme = bits_as<Bits<T>>(all);
  core->extreme_taint = all_taint;
  vector_step(name, VCMAX, lanes.repeats);
}

#define REDUCE(NAME, TYPE, GROUP, EXPRESSION)                                                                          \
  INTRINSIC hivm_##NAME(u8 *d, u8 *s, u64 c) {                                                                         \
    reduce<TYPE>(#NAME, GROUP, d, s, c, [](TYPE x, TYPE y) -> TYPE { return EXPRESSION; });                            \
  }
REDUCE(VCGADD_f32, f32, PER_BLOCK, x + y)
REDUCE(VCGADD_f16, f16, PER_BLOCK, (f16)((f32)x + (f32)y))
REDUCE(VCPADD_f32, f32, PER_PAIR, x + y)
REDUCE(VCPADD_f16, f16, PER_PAIR, (f16)((f32)x + (f32)y))

#define REDUCE_ALL(NAME, TYPE, EXPRESSION)                                                                             \
  INTRINSIC hivm_##NAME(u8 *d, u8 *s, u64 c, u64) {                                                                    \
    reduce<TYPE>(#NAME, PER_REPEAT, d, s, c, [](TYPE x, TYPE y) -> TYPE { return EXPRESSION; });                       \
  }
REDUCE_ALL(VCADD_f32_order, f32, x + y)
REDUCE_ALL(VCADD_f16_order, f16, (f16)((f32)x + (f32)y))

// Order 2 asks for the value alone; the other orders add an index.
#define REDUCE_EXTREME(NAME, TYPE, EXPRESSION)                                                                         \
  INTRINSIC hivm_##NAME(u8 *d, u8 *s, u64 c, u64 order) {                                                              \
    if (order != 2) fatal("unsupported", #NAME " with an index (order %llu)", (unsigned long long)order);             \
    reduce<TYPE>(#NAME, PER_REPEAT, d, s, c, [](TYPE x, TYPE y) -> TYPE { return EXPRESSION; });                       \
  }
REDUCE_EXTREME(VCMAX_f32_order_v220, f32, std::fmax(x, y))
REDUCE_EXTREME(VCMAX_f16_order_v220, f16, (f16)std::fmax((f32)x, (f32)y))
REDUCE_EXTREME(VCMIN_f32_order_v220, f32, std::fmin(x, y))
REDUCE_EXTREME(VCMIN_f16_order_v220, f16, (f16)std::fmin((f32)x, (f32)y))

extern "C" u64 hivm_GET_MAX_MIN_CNT() {
  if (core->extreme_taint) fatal("poison", "GET_MAX_MIN_CNT reads an extreme over bytes that were never written");
  return core->extreme;
}
