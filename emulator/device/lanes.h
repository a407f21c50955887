// Walks the lanes of a vector instruction: repeats, masks, strides, and which bits of the result were never written.
#pragma once
#include "core.h"
#include <algorithm>
#include <cmath>
#include <type_traits>

constexpr u64 MAX_LANES = 256; // one repeat of one-byte elements

// Strides as a binary instruction's configuration packs them: repeat count, then block and repeat strides in blocks.
struct Binary {
  u64 repeats, dst_block, a_block, b_block, dst_repeat, a_repeat, b_repeat;
  explicit Binary(u64 c)
      : repeats(c >> 56), dst_block(c & 255), a_block((c >> 8) & 255), b_block((c >> 16) & 255),
        dst_repeat((c >> 24) & 255), a_repeat((c >> 32) & 255), b_repeat((c >> 40) & 255) {}
};

struct Unary {
  u64 repeats, dst_block, src_block, dst_repeat, src_repeat;
  explicit Unary(u64 c)
      : repeats(c >> 56), dst_block(c & 65535), src_block((c >> 16) & 65535),
        dst_repeat(((c >> 32) & 255) | (((c >> 52) & 15) << 8)), src_repeat((c >> 40) & 4095) {}
};

// The lanes an instruction works on. In count mode MASK[31:0] is the number of elements and the repeat field is
// ignored; in norm mode the mask selects lanes within every repeat.
struct Lanes {
  u64 repeats, width, total;
  bool prefix; // the active lanes are exactly the first `total`
  Lanes(u64 repeat_field, u64 lanes, bool masked = true) : repeats(repeat_field), width(lanes) {
    if (count_mode()) {
      total = core->mask[0] & 0xffffffff;
      repeats = (total + width - 1) / width;
      prefix = true;
      return;
    }
    total = repeats * width;
    prefix = !masked || full();
  }
  bool full() const {
    if (width >= 128) return core->mask[0] == ~0ull && core->mask[1] == ~0ull;
    const u64 want = width == 64 ? ~0ull : (1ull << width) - 1;
    return (core->mask[0] & want) == want;
  }
  bool active(u64 repeat, u64 lane) const {
    return prefix ? repeat * width + lane < total : bit(core->mask[lane / 64], lane % 64);
  }
};

template <class T> struct Operand {
  u8 *start;
  u64 block, repeat; // strides in blocks
  static constexpr u64 PER_BLOCK = BLOCK / sizeof(T);
  u8 *at(u64 r, u64 lane) const {
    return start + r * repeat * BLOCK + lane / PER_BLOCK * block * BLOCK + lane % PER_BLOCK * sizeof(T);
  }
  bool dense(const Lanes &lanes) const {
    return (lanes.width * sizeof(T) <= BLOCK || block == 1 || lanes.total <= PER_BLOCK) &&
           (lanes.repeats <= 1 || repeat * BLOCK == lanes.width * sizeof(T));
  }
  // Marks what the active lanes touch; gaps between strided blocks and masked-off blocks stay untouched.
  void access(const char *name, const Lanes &lanes, bool write) const {
    aligned(name, start);
    if (!lanes.total) return;
    if (lanes.prefix && dense(lanes)) return touch(name, V, start, lanes.total * sizeof(T), write);
    for (u64 r = 0; r < lanes.repeats; r++)
      for (u64 first = 0; first < lanes.width; first += PER_BLOCK) {
        u64 used = 0;
        for (u64 lane = first; lane < std::min(first + PER_BLOCK, lanes.width); lane++)
          if (lanes.active(r, lane)) used = lane - first + 1;
        if (used) touch(name, V, at(r, first), used * sizeof(T), write);
      }
  }
  bool any_taint(const Lanes &lanes) const {
    if (lanes.prefix && dense(lanes)) return ::any_taint(start, lanes.total * sizeof(T));
    for (u64 r = 0; r < lanes.repeats; r++)
      for (u64 lane = 0; lane < lanes.width; lane++)
        if (lanes.active(r, lane) && ::any_taint(at(r, lane), sizeof(T))) return true;
    return false;
  }
};

template <class T> using Bits = std::conditional_t<
    sizeof(T) == 1, u8, std::conditional_t<sizeof(T) == 2, u16, std::conditional_t<sizeof(T) == 4, u32, u64>>>;

template <class T> inline T load(const u8 *from) {
  T value;
  memcpy(&value, from, sizeof(T));
  return value;
}
template <class T> inline void store(u8 *to, T value) { memcpy(to, &value, sizeof(T)); }
template <class T> inline Bits<T> taint(const u8 *of) { return load<Bits<T>>(taint_at(of)); }
template <class To, class From> inline To bits_as(From value) {
  static_assert(sizeof(To) == sizeof(From));
  To result;
  memcpy(&result, &value, sizeof(To));
  return result;
}

inline bool overlap(const u8 *a, u64 a_bytes, const u8 *b, u64 b_bytes) {
  return a != b && a < b + b_bytes && b < a + a_bytes;
}

// How taint goes through an operation: any tainted bit of an operand taints the whole result.
template <class D> struct Whole {
  template <class A> Bits<D> operator()(A, Bits<A> t) const { return t ? (Bits<D>)~(Bits<D>)0 : 0; }
  template <class A> Bits<D> operator()(A, A, Bits<A> t, Bits<A> u) const { return (t | u) ? (Bits<D>)~(Bits<D>)0 : 0; }
};

template <class D, class A, class F, class T = Whole<D>>
u64 each(const char *name, void *dst, const void *src, u64 config, F f, T rule = T(), bool scalar_taint = false) {
  const Unary g(config);
  const Lanes lanes(g.repeats, REPEAT / std::max(sizeof(D), sizeof(A)));
  const Operand<A> a{(u8 *)src, g.src_block, g.src_repeat};
  const Operand<D> d{(u8 *)dst, g.dst_block, g.dst_repeat};
  issue(V);
  a.access(name, lanes, false);
  d.access(name, lanes, true);
  const bool tainted = core->launch->checks && (scalar_taint || a.any_taint(lanes));
  const u64 n = lanes.total;
  if (lanes.prefix && a.dense(lanes) && d.dense(lanes) && !tainted &&
      !overlap(d.start, n * sizeof(D), a.start, n * sizeof(A)) && (sizeof(D) == sizeof(A) || dst != src)) {
    const A *x = (const A *)src;
    D *y = (D *)dst;
    for (u64 i = 0; i < n; i++) y[i] = f(x[i]);
    set_taint(dst, n * sizeof(D), 0);
    return lanes.repeats;
  }
  D result[MAX_LANES];
  Bits<D> result_taint[MAX_LANES];
  for (u64 r = 0; r < lanes.repeats; r++) {
    for (u64 e = 0; e < lanes.width; e++)
      if (lanes.active(r, e)) {
        const A x = load<A>(a.at(r, e));
        result[e] = f(x);
        result_taint[e] = tainted ? rule(x, taint<A>(a.at(r, e))) : 0;
      }
    for (u64 e = 0; e < lanes.width; e++)
      if (lanes.active(r, e)) {
        store(d.at(r, e), result[e]);
        put_taint(d.at(r, e), &result_taint[e], sizeof(D));
      }
  }
  return lanes.repeats;
}

template <class T, class F, class R = Whole<T>>
u64 pairs(const char *name, void *dst, const void *first, const void *second, u64 config, F f, R rule = R()) {
  const Binary g(config);
  const Lanes lanes(g.repeats, REPEAT / sizeof(T));
  const Operand<T> a{(u8 *)first, g.a_block, g.a_repeat}, b{(u8 *)second, g.b_block, g.b_repeat};
  const Operand<T> d{(u8 *)dst, g.dst_block, g.dst_repeat};
  issue(V);
  a.access(name, lanes, false);
  b.access(name, lanes, false);
  d.access(name, lanes, true);
  const bool tainted = core->launch->checks && (a.any_taint(lanes) || b.any_taint(lanes));
  const u64 n = lanes.total, bytes = n * sizeof(T);
  if (lanes.prefix && a.dense(lanes) && b.dense(lanes) && d.dense(lanes) && !tainted &&
      !overlap(d.start, bytes, a.start, bytes) && !overlap(d.start, bytes, b.start, bytes)) {
    const T *x = (const T *)first, *y = (const T *)second;
    T *z = (T *)dst;
    for (u64 i = 0; i < n; i++) z[i] = f(x[i], y[i]);
    set_taint(dst, bytes, 0);
    return lanes.repeats;
  }
  T result[MAX_LANES];
  Bits<T> result_taint[MAX_LANES];
  for (u64 r = 0; r < lanes.repeats; r++) {
    for (u64 e = 0; e < lanes.width; e++)
      if (lanes.active(r, e)) {
        const T x = load<T>(a.at(r, e)), y = load<T>(b.at(r, e));
        result[e] = f(x, y);
        result_taint[e] = tainted ? rule(x, y, taint<T>(a.at(r, e)), taint<T>(b.at(r, e))) : 0;
      }
    for (u64 e = 0; e < lanes.width; e++)
      if (lanes.active(r, e)) {
        store(d.at(r, e), result[e]);
        put_taint(d.at(r, e), &result_taint[e], sizeof(T));
      }
  }
  return lanes.repeats;
}

// float helpers shared by arithmetic and conversions
inline f32 flush(f32 x) {
  return core->launch->assume.flush_subnormals && x != 0 && std::fabs(x) < 1.17549435e-38f ? std::copysign(0.f, x) : x;
}
inline f16 half_result(f16 x) {
  const Assumptions &assume = core->launch->assume;
  if (assume.f16_saturates) {
    if (x != x) return 0;
    if (std::isinf((f32)x)) return x > 0 ? (f16)65504.f : (f16)-65504.f;
  }
  if (assume.flush_subnormals && x != 0 && std::fabs((f32)x) < 6.103515625e-05f) return (f16)std::copysign(0.f, (f32)x);
  return x;
}
