// Element-wise arithmetic, logic and shifts: VADD .. VREC. Meanings and sources: SEMANTICS.md.
#include "lanes.h"
#include <limits>

#define INTRINSIC extern "C" void

static u64 random_bits() {
  u64 &x = core->random;
  x ^= x << 13;
  x ^= x >> 7;
  x ^= x << 17;
  return x;
}

// The quotient as Assumptions.division would have it: zeros are moved too, infinities and NaN are not.
template <class T> static T division_error(T q) {
  const s32 mode = core->launch->assume.division;
  if (!mode || q != q || std::isinf((f32)q)) return q;
  const int ulps = mode == 2 ? 1 : mode == 3 ? -1 : (int)(random_bits() >> 20) % 3 - 1;
  if (!ulps) return q;
  Bits<T> word = bits_as<Bits<T>>(q);
  const Bits<T> sign = (Bits<T>)1 << (8 * sizeof(T) - 1);
  if ((word & ~sign) == 0) {
    if (ulps < 0) return q;
    word |= 1;
  } else {
    word += ulps;
  }
  return bits_as<T>(word);
}

template <class T, class W> static T integer(W value) {
  if (!core->launch->assume.int_saturates) return (T)value;
  return (T)std::clamp<W>(value, std::numeric_limits<T>::min(), std::numeric_limits<T>::max());
}

// f16: one IEEE rounding per operation. Through f32 that is exact for + - * /, since 24 >= 2*11+2 bits.
#define F32_OF(expression) [](f32 x, f32 y) -> f32 { return flush(expression); }
#define F16_OF(expression) [](f16 p, f16 q) -> f16 { const f32 x = p, y = q; return half_result((f16)(expression)); }
#define S16_OF(expression) [](s16 p, s16 q) -> s16 { const s32 x = p, y = q; return integer<s16, s32>(expression); }
#define S32_OF(expression) [](s32 p, s32 q) -> s32 { const s64 x = p, y = q; return integer<s32, s64>(expression); }

#define PAIRS(NAME, TYPE, CLASS, FUNCTION)                                                                             \
  INTRINSIC hivm_##NAME(void *d, void *a, void *b, u64 c) {                                                            \
    vector_step(#NAME, CLASS, pairs<TYPE>(#NAME, d, a, b, c, FUNCTION), true);                                         \
  }
#define ARITHMETIC(NAME, CLASS, OP)                                                                                    \
  PAIRS(NAME##_f32, f32, CLASS, F32_OF(x OP y))                                                                        \
  PAIRS(NAME##_f16, f16, CLASS, F16_OF(x OP y))                                                                        \
  PAIRS(NAME##_s32, s32, CLASS, S32_OF(x OP y))                                                                        \
  PAIRS(NAME##_s16, s16, CLASS, S16_OF(x OP y))
ARITHMETIC(VADD, VADD, +)
ARITHMETIC(VSUB, VSUB, -)
ARITHMETIC(VMUL, VMUL, *)

// The mode is read once per instruction, so that the exact quotient stays a plain loop.
INTRINSIC hivm_VDIV_f32(void *d, void *a, void *b, u64 c) {
  const bool exact = !core->launch->assume.division && !core->launch->assume.flush_subnormals;
  const u64 repeats =
      exact ? pairs<f32>("VDIV_f32", d, a, b, c, [](f32 x, f32 y) -> f32 { return x / y; })
            : pairs<f32>("VDIV_f32", d, a, b, c, [](f32 x, f32 y) -> f32 { return flush(division_error(x / y)); });
  vector_step("VDIV_f32", VDIV, repeats, true);
}
INTRINSIC hivm_VDIV_f16(void *d, void *a, void *b, u64 c) {
  const u64 repeats = pairs<f16>("VDIV_f16", d, a, b, c, [](f16 x, f16 y) -> f16 {
    return half_result(division_error((f16)((f32)x / (f32)y)));
  });
  vector_step("VDIV_f16", VDIV, repeats, true);
}

// With one NaN the other operand is the result (inferred); plain comparisons for integers.
#define EXTREMES(NAME, CLASS, FLOAT, LESS)                                                                             \
  PAIRS(NAME##_f32, f32, CLASS, ([](f32 x, f32 y) -> f32 { return FLOAT(x, y); }))                                     \
  PAIRS(NAME##_f16, f16, CLASS, ([](f16 x, f16 y) -> f16 { return (f16)FLOAT((f32)x, (f32)y); }))                      \
  PAIRS(NAME##_s32, s32, CLASS, ([](s32 x, s32 y) -> s32 { return x LESS y ? x : y; }))                                \
  PAIRS(NAME##_s16, s16, CLASS, ([](s16 x, s16 y) -> s16 { return x LESS y ? x : y; }))
EXTREMES(VMAX, VMAX, std::fmax, >)
EXTREMES(VMIN, VMIN, std::fmin, <)

// A result bit of and/or is known as soon as one operand decides it.
template <class T> struct AndTaint {
  T operator()(T a, T b, T t, T u) const { return (t | u) & (a | t) & (b | u); }
};
template <class T> struct OrTaint {
  T operator()(T a, T b, T t, T u) const { return (t | u) & ((T)~a | t) & ((T)~b | u); }
};
#define LOGIC(NAME, CLASS, OP, RULE)                                                                                   \
  INTRINSIC hivm_##NAME(void *d, void *a, void *b, u64 c) {                                                            \
    const u64 repeats = pairs<u16>(#NAME, d, a, b, c, [](u16 x, u16 y) -> u16 { return x OP y; }, RULE<u16>());        \
    vector_step(#NAME, CLASS, repeats, true);                                                                          \
  }
LOGIC(VAND_s16, VAND, &, AndTaint)
LOGIC(VAND_u16, VAND, &, AndTaint)
LOGIC(VOR_s16, VOR, |, OrTaint)
LOGIC(VOR_u16, VOR, |, OrTaint)

struct SameTaint {
  template <class A, class B> B operator()(A, B t) const { return t; }
};
#define NOT(NAME)                                                                                                      \
  INTRINSIC hivm_##NAME(void *d, void *a, u64 c) {                                                                     \
    vector_step(#NAME, VNOT, each<u16, u16>(#NAME, d, a, c, [](u16 x) -> u16 { return ~x; }, SameTaint()));            \
  }
NOT(VNOT_s16)
NOT(VNOT_u16)

// Vector and scalar; the scalar comes in the argument type the intrinsic is declared with.
template <class T> struct WithScalarTaint {
  bool scalar;
  Bits<T> operator()(T, Bits<T> t) const { return t || scalar ? (Bits<T>)~(Bits<T>)0 : 0; }
};
#define SCALAR(NAME, TYPE, GIVEN, CLASS, EXPRESSION)                                                                   \
  INTRINSIC hivm_##NAME(void *d, void *a, GIVEN given, u64 c) {                                                        \
    const TYPE y = (TYPE)given;                                                                                        \
    const WithScalarTaint<TYPE> rule{take_scalar_taint()};                                                             \
    const auto f = [y](TYPE x) -> TYPE { return EXPRESSION; };                                                         \
    vector_step(#NAME, CLASS, each<TYPE, TYPE>(#NAME, d, a, c, f, rule, rule.scalar));                                 \
  }
#define SCALARS(NAME, CLASS, OP)                                                                                       \
  SCALAR(NAME##_f32, f32, f32, CLASS, flush(x OP y))                                                                   \
  SCALAR(NAME##_f16, f16, f16, CLASS, half_result((f16)((f32)x OP(f32) y)))                                            \
  SCALAR(NAME##_s32, s32, u64, CLASS, (integer<s32, s64>((s64)x OP(s64) y)))                                           \
  SCALAR(NAME##_s16, s16, u64, CLASS, (integer<s16, s32>((s32)x OP(s32) y)))
SCALARS(VADDS, VADDS, +)
SCALARS(VMULS, VMULS, *)
#define SCALAR_EXTREMES(NAME, CLASS, FLOAT, LESS)                                                                      \
  SCALAR(NAME##_f32, f32, f32, CLASS, FLOAT(x, y))                                                                     \
  SCALAR(NAME##_f16, f16, f16, CLASS, (f16)FLOAT((f32)x, (f32)y))                                                      \
  SCALAR(NAME##_s32, s32, u64, CLASS, x LESS y ? x : y)                                                                \
  SCALAR(NAME##_s16, s16, u64, CLASS, x LESS y ? x : y)
SCALAR_EXTREMES(VMAXS, VMAXS, std::fmax, >)
SCALAR_EXTREMES(VMINS, VMINS, std::fmin, <)

// Shifts by the width and beyond give 0, or the sign for a signed right shift. A shift moves taint with the bits.
template <class T> static T left(T x, u64 by) { return by >= 8 * sizeof(T) ? 0 : (T)((Bits<T>)x << by); }
template <class T> static T right(T x, u64 by) {
  return std::is_signed_v<T> ? (T)(x >> std::min<u64>(by, 8 * sizeof(T) - 1)) : by >= 8 * sizeof(T) ? 0 : (T)(x >> by);
}
#define SHIFT_LEFT(NAME, TYPE)                                                                                         \
  INTRINSIC hivm_##NAME(void *d, void *a, u64 by, u64 c) {                                                             \
    const auto f = [by](TYPE x) -> TYPE { return left<TYPE>(x, by); };                                                 \
    const auto moved = [by](TYPE, Bits<TYPE> t) -> Bits<TYPE> { return left<Bits<TYPE>>(t, by); };                     \
    vector_step(#NAME, VSHIFT, each<TYPE, TYPE>(#NAME, d, a, c, f, moved));                                            \
  }
SHIFT_LEFT(VSHL_s32, s32)
SHIFT_LEFT(VSHL_u32, u32)
SHIFT_LEFT(VSHL_s16, s16)
SHIFT_LEFT(VSHL_u16, u16)
#define SHIFT_RIGHT(NAME, TYPE)                                                                                        \
  INTRINSIC hivm_##NAME(void *d, void *a, u64 by, u64 c, u64 rounded) {                                                \
    if (rounded) fatal("unsupported", #NAME " with rounding");                                                        \
    const auto f = [by](TYPE x) -> TYPE { return right<TYPE>(x, by); };                                                \
    const auto moved = [by](TYPE, Bits<TYPE> t) -> Bits<TYPE> { return (Bits<TYPE>)right<TYPE>((TYPE)t, by); };        \
    vector_step(#NAME, VSHIFT, each<TYPE, TYPE>(#NAME, d, a, c, f, moved));                                            \
  }
SHIFT_RIGHT(VSHR_s32, s32)
SHIFT_RIGHT(VSHR_u32, u32)
SHIFT_RIGHT(VSHR_s16, s16)
SHIFT_RIGHT(VSHR_u16, u16)

// Transcendentals are the host's; a device may differ in the last places (inferred).
#define EACH_FLOAT(NAME, CLASS, EXPRESSION)                                                                            \
  INTRINSIC hivm_##NAME##_f32(void *d, void *a, u64 c) {                                                               \
    vector_step(#NAME "_f32", CLASS,                                                                                   \
                each<f32, f32>(#NAME "_f32", d, a, c, [](f32 x) -> f32 { return flush(EXPRESSION); }));                \
  }                                                                                                                    \
  INTRINSIC hivm_##NAME##_f16(void *d, void *a, u64 c) {                                                               \
    vector_step(#NAME "_f16", CLASS, each<f16, f16>(#NAME "_f16", d, a, c, [](f16 p) -> f16 {                          \
                  const f32 x = p;                                                                                     \
                  return half_result((f16)(EXPRESSION));                                                               \
                }));                                                                                                   \
  }
EACH_FLOAT(VABS, VABS, std::fabs(x))
EACH_FLOAT(VEXP, VEXP, std::exp(x))
EACH_FLOAT(VLN, VLN, std::log(x))
EACH_FLOAT(VSQRT, VSQRT, std::sqrt(x))
EACH_FLOAT(VRSQRT, VRSQRT, 1 / std::sqrt(x))
EACH_FLOAT(VREC, VREC, 1 / x)
EACH_FLOAT(VRELU, VRELU, x > 0 ? x : 0)
INTRINSIC hivm_VRELU_s32(void *d, void *a, u64 c) {
  vector_step("VRELU_s32", VRELU, each<s32, s32>("VRELU_s32", d, a, c, [](s32 x) -> s32 { return x > 0 ? x : 0; }));
}
