// The samplers against their definitions, written out plainly: sorted lists of doubles, nothing shared with the code
// under test. Chi-square over many draws, and no draw outside what the definition keeps.
#include "ops/sample_row.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>

#include "base/rng.h"

namespace quire {
namespace {

struct Plain {
  double x;  // logit, divided by the temperature once that has acted
  int id;
};
using Plains = std::vector<Plain>;

void sort_falling(Plains& list) {
  std::stable_sort(list.begin(), list.end(), [](const Plain& a, const Plain& b) { return a.x > b.x; });
}

std::vector<double> softmax(const Plains& list) {
  std::vector<double> p;
  double total = 0, max = -INFINITY;
  for (const Plain& c : list) max = std::max(max, c.x);
  for (const Plain& c : list) total += p.emplace_back(std::exp(c.x - max));
  for (double& v : p) v /= total;
  return p;
}

double entropy_of(const Plains& list) {
  double h = 0;
  for (const double p : softmax(list)) h -= p > 0 ? p * std::log(p) : 0;
  return h;
}

size_t run_length(const std::vector<double>& p, double wanted) {
  double reached = 0;
  size_t n = 0;
  while (n < p.size() && (n == 0 || reached < wanted)) reached += p[n++];
  return n;
}

void plain_temperature(Plains& list, const SampleParams& s) {
  double t = static_cast<double>(s.temperature);
  if (s.dynatemp_range > 0) {
    const double r = static_cast<double>(s.dynatemp_range);
    const double lo = std::max(0.0, t - r), hi = t + r;
    const double share = entropy_of(list) / std::log(static_cast<double>(list.size()));
    t = lo + (hi - lo) * std::pow(share, static_cast<double>(s.dynatemp_exponent));
  }
  for (Plain& c : list) c.x /= t;
}

void plain_sigma(Plains& list, const SampleParams& s) {
  double mean = 0, square = 0;
  for (const Plain& c : list) mean += c.x / static_cast<double>(list.size());
  for (const Plain& c : list) square += (c.x - mean) * (c.x - mean) / static_cast<double>(list.size());
  const double bound = list[0].x - static_cast<double>(s.top_n_sigma) * std::sqrt(square);
  std::erase_if(list, [&](const Plain& c) { return c.x < bound; });
}

void plain_typical(Plains& list, const SampleParams& s) {
  const double h = entropy_of(list);
  const std::vector<double> p = softmax(list);
  std::vector<size_t> order(list.size());
  std::iota(order.begin(), order.end(), size_t{0});
  const auto shift = [&](size_t i) { return std::abs(-std::log(p[i]) - h); };
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) { return shift(a) < shift(b); });
  Plains kept;
  double reached = 0;
  for (const size_t i : order) {
    kept.push_back(list[i]);
    reached += p[i];
    if (reached >= static_cast<double>(s.typical_p)) break;
  }
  sort_falling(kept);
  list = kept;
}

void plain_xtc(Plains& list, const SampleParams& s) {
  if (s.xtc_draw >= static_cast<double>(s.xtc_probability)) return;
  const std::vector<double> p = softmax(list);
  size_t n = 0;
  while (n < p.size() && p[n] >= static_cast<double>(s.xtc_threshold)) ++n;
  if (n >= 2) list.erase(list.begin(), list.begin() + static_cast<std::ptrdiff_t>(n - 1));
}

// As the paper has it: Zipf's exponent of the 100 largest by least squares, then as many as give a surprise of mu.
void plain_mirostat_1(Plains& list, const SampleParams& s) {
  const std::vector<double> p = softmax(list);
  double products = 0, squares = 0;
  for (size_t i = 0; i + 1 < std::min<size_t>(100, p.size()); ++i) {
    const double t = std::log(static_cast<double>(i + 2) / static_cast<double>(i + 1));
    products += t * std::log(p[i] / p[i + 1]);
    squares += t * t;
  }
  if (p.size() < 2) return;
  const double zipf = products / squares, epsilon = zipf - 1, mu = static_cast<double>(s.mirostat_mu);
  const double n = static_cast<double>(p.size());
  const double k = std::pow(epsilon * std::pow(2, mu) / (1 - std::pow(n, -epsilon)), 1 / zipf);
  list.resize(static_cast<size_t>(std::clamp(std::floor(k), 1.0, n)));
}

// What is left of the distribution, by id.
std::map<int, double> definition(const std::vector<float>& logits, const SampleParams& s) {
  Plains list;
  for (size_t i = 0; i < logits.size(); ++i) list.push_back({static_cast<double>(logits[i]), static_cast<int>(i)});
  sort_falling(list);
  for (const Filter filter : s.order) {
    const std::vector<double> p = softmax(list);
    if (filter == kFilter<filters::Temperature>) plain_temperature(list, s);
    if (filter == kFilter<filters::TopNSigma> && s.top_n_sigma > 0) plain_sigma(list, s);
    if (filter == kFilter<filters::MinP>) {
      size_t n = 0;
      while (n < p.size() && p[n] >= static_cast<double>(s.min_p) * p[0]) ++n;
      list.resize(n);
    }
    if (filter == kFilter<filters::TopK> && s.top_k > 0)
      list.resize(std::min(list.size(), static_cast<size_t>(s.top_k)));
    if (filter == kFilter<filters::TypicalP> && s.typical_p < 1) plain_typical(list, s);
    if (filter == kFilter<filters::TopP> && s.top_p < 1) list.resize(run_length(p, static_cast<double>(s.top_p)));
    if (filter == kFilter<filters::Xtc> && s.xtc_probability > 0) plain_xtc(list, s);
    if (filter == kFilter<filters::Mirostat1>) plain_mirostat_1(list, s);
    if (filter == kFilter<filters::Mirostat2>) {
      size_t n = 1;
      while (n < p.size() && -std::log2(p[n]) <= static_cast<double>(s.mirostat_mu)) ++n;
      list.resize(n);
    }
  }
  const std::vector<double> p = softmax(list);
  std::map<int, double> out;
  for (size_t i = 0; i < list.size(); ++i) out[list[i].id] = p[i];
  return out;
}

std::vector<float> random_logits(uint64_t seed, int n, float spread) {
  Rng rng(seed);
  std::vector<float> out(static_cast<size_t>(n));
  for (float& x : out) x = spread * rng.normal();
  return out;
}

// Above it with chance 10^-5 (normal approximation of Wilson and Hilferty).
double chi_square_bound(double n) {
  const double a = 2.0 / (9.0 * n);
  return n * std::pow(1.0 - a + 4.265 * std::sqrt(a), 3);
}

void expect_follows(SampleParams s, int n_vocab, float spread) {
  constexpr int kDraws = 4000;
  std::vector<float> logits = random_logits(17, n_vocab, spread);
  const std::vector<float> before = logits;
  const std::map<int, double> expected = definition(logits, s);
  SampleScratch scratch;
  std::map<int, int> seen;
  for (uint64_t i = 0; i < kDraws; ++i) {
    s.draw = random_unit(3, i);
    Sampled out;
    sample_row(logits, s, plain_sample_kernels(), scratch, out);
    ASSERT_TRUE(out.ok);
    ASSERT_TRUE(expected.contains(out.token)) << out.token << " was cut";
    ++seen[out.token];
  }
  EXPECT_EQ(logits, before);
  double chi = 0, rest_expected = 0, rest_seen = 0;
  int n_bins = 0;
  const auto add = [&](double wanted, double got) {
    chi += (got - wanted) * (got - wanted) / wanted;
    ++n_bins;
  };
  for (const auto& [id, p] : expected) {
    if (p * kDraws >= 8) {
      add(p * kDraws, seen[id]);
    } else {
      rest_expected += p * kDraws;
      rest_seen += seen[id];
    }
  }
  if (rest_expected >= 8) add(rest_expected, rest_seen);
  if (n_bins > 1) {
    EXPECT_LT(chi, chi_square_bound(n_bins - 1)) << n_bins << " bins";
  }
}

SampleParams at(float temperature) {
  SampleParams s;
  s.temperature = temperature;
  s.logprob = false;
  return s;
}

TEST(SampleRow, FollowsTheDefinitionOfEachFilter) {
  for (const float t : {0.7F, 1.3F}) {
    for (const int n : {1, 5, 65, 1100}) {
      SCOPED_TRACE(std::to_string(n) + " tokens, temperature " + std::to_string(t));
      SampleParams s = at(t);
      expect_follows(s, n, 2.0F);
      s.top_k = 13;
      expect_follows(s, n, 2.0F);
      s = at(t);
      s.top_p = 0.8F;
      expect_follows(s, n, 2.0F);
      s = at(t);
      s.min_p = 0.05F;
      expect_follows(s, n, 2.0F);
      s = at(t);
      s.typical_p = 0.6F;
      expect_follows(s, n, 2.0F);
      s = at(t);
      s.top_n_sigma = 1.2F;
      expect_follows(s, n, 2.0F);
      s = at(t);
      s.xtc_probability = 0.5F;
      s.xtc_threshold = 0.05F;
      expect_follows(s, n, 2.0F);
      s = at(t);
      s.dynatemp_range = 0.5F;
      s.dynatemp_exponent = 1.5F;
      if (n > 1) expect_follows(s, n, 2.0F);
      s = at(t);
      for (const Filter version : {kFilter<filters::Mirostat1>, kFilter<filters::Mirostat2>}) {
        const std::array order = {kFilter<filters::Temperature>, version};
        s.order = order;
        for (const float mu : {1.5F, 4.5F, 30.0F}) {
          s.mirostat_mu = mu;
          expect_follows(s, n, 2.0F);
        }
      }
    }
  }
}

TEST(SampleRow, FollowsTheDefinitionOfChainsInAnyOrder) {
  std::vector<Filter> order(kDefaultOrder.begin(), kDefaultOrder.end());
  Rng rng(5);
  for (int round = 0; round < 25; ++round) {
    for (size_t i = order.size(); i > 1; --i) {
      std::swap(order[i - 1], order[static_cast<size_t>(rng.between(0, static_cast<int64_t>(i) - 1))]);
    }
    SCOPED_TRACE(round);
    SampleParams s = at(0.8F);
    s.order = order;
    s.top_k = static_cast<int>(rng.between(0, 60));
    s.top_p = static_cast<float>(0.5 + rng.unit() / 2);
    s.min_p = static_cast<float>(rng.unit() / 50);
    s.typical_p = static_cast<float>(0.5 + rng.unit() / 2);
    s.top_n_sigma = static_cast<float>(2 * rng.unit() + 0.5);
    s.xtc_probability = 1.0F;
    s.xtc_threshold = static_cast<float>(0.05 + rng.unit() / 5);
    expect_follows(s, 700, 1.5F);
  }
}

TEST(SampleRow, KeepsAtLeastMinKeep) {
  for (const Filter filter : kDefaultOrder) {
    SampleParams s = at(1.0F);
    const std::vector order = {filter};
    s.order = order;
    s.top_k = 1;
    s.top_p = s.typical_p = s.top_n_sigma = 1e-6F;
    s.min_p = 1.0F;
    s.min_keep = 4;
    std::vector<float> logits = random_logits(1, 300, 2.0F);
    std::map<Token, int> seen;
    SampleScratch scratch;
    for (uint64_t i = 0; i < 3000; ++i) {
      s.draw = random_unit(4, i);
      Sampled out;
      sample_row(logits, s, plain_sample_kernels(), scratch, out);
      ++seen[out.token];
    }
    if (filter != kFilter<filters::Temperature> && filter != kFilter<filters::Xtc>) {
      EXPECT_EQ(seen.size(), 4U) << static_cast<int>(filter);
    } else {
      EXPECT_GT(seen.size(), 4U);
    }
  }
}

TEST(SampleRow, EqualLogitsGoToTheLowerIds) {
  std::vector<float> logits(200, 1.0F);
  logits[150] = 2.0F;
  SampleScratch scratch;
  SampleParams s = at(1.0F);
  s.top_k = 3;
  std::map<Token, int> seen;
  for (uint64_t i = 0; i < 1000; ++i) {
    s.draw = random_unit(1, i);
    Sampled out;
    sample_row(logits, s, plain_sample_kernels(), scratch, out);
    ++seen[out.token];
  }
  EXPECT_EQ(seen.size(), 3U);
  EXPECT_TRUE(seen.contains(0) && seen.contains(1) && seen.contains(150));
  s.temperature = 0;
  logits[150] = 1.0F;
  Sampled out;
  sample_row(logits, s, plain_sample_kernels(), scratch, out);
  EXPECT_EQ(out.token, 0);
}

TEST(SampleRow, EditsActBeforeEverythingAndAreUndone) {
  std::vector<float> logits = random_logits(9, 500, 1.0F);
  logits[70] = 50.0F;
  logits[71] = -3.0F;
  const std::vector<float> before = logits;
  SampleScratch scratch;
  LogitEdits edits;
  SampleParams s = at(0.0F);
  s.edits = &edits;
  s.logprob = true;
  s.n_top = 2;
  const auto pick = [&] {
    Sampled out;
    sample_row(logits, s, plain_sample_kernels(), scratch, out);
    EXPECT_EQ(logits, before);
    EXPECT_EQ(out.top[0].id, 70) << "logprobs are the model's own";
    return out.token;
  };
  EXPECT_EQ(pick(), 70);
  edits.sparse = {{70, 0.0F, 100.0F}, {71, 10.0F, 0.5F}};
  EXPECT_EQ(pick(), 71);
  edits.sparse = {{70, -INFINITY, 1.0F}, {71, 4.0F, 1.0F}, {71, 5.0F, 1.0F}, {70, 99.0F, 1.0F}};
  EXPECT_EQ(pick(), 71) << "what is forbidden stays so";
  edits.sparse.clear();
  edits.bitmask.assign(16, 0U);
  edits.bitmask[2] = 1U << (71 - 64);
  EXPECT_EQ(pick(), 71);
  edits.sparse = {{3, 99.0F, 1.0F}};
  EXPECT_EQ(pick(), 71);
}

TEST(SampleRow, AMaskIsWhatForbiddingEachIdIs) {
  Rng rng(11);
  for (int round = 0; round < 300; ++round) {
    std::vector<float> logits(static_cast<size_t>(rng.between(1, 300)));
    for (float& x : logits) x = 3.0F * rng.normal();
    LogitEdits mask, forbidden;
    mask.bitmask.resize(static_cast<size_t>(rng.between(1, 11)));
    const int density = round % 5;  // none, few, half, most, all
    for (uint32_t& word : mask.bitmask) {
      for (int bit = 0; bit < 32; ++bit) word |= rng.between(0, 40) < density * density * 3 ? 1U << bit : 0U;
    }
    for (size_t i = 0; i < logits.size(); ++i) {
      if (i / 32 < mask.bitmask.size() && (mask.bitmask[i / 32] >> (i % 32) & 1U) != 0) continue;
      forbidden.sparse.push_back({static_cast<Token>(i), -INFINITY, 1.0F});
    }
    SampleParams s = at(round % 3 == 0 ? 0.0F : 0.9F);
    s.top_p = round % 2 == 0 ? 0.9F : 1.0F;
    s.draw = random_unit(5, static_cast<uint64_t>(round));
    SampleScratch scratch;
    Sampled by_mask, one_by_one;
    s.edits = &mask;
    sample_row(logits, s, plain_sample_kernels(), scratch, by_mask);
    s.edits = &forbidden;
    sample_row(logits, s, plain_sample_kernels(), scratch, one_by_one);
    ASSERT_EQ(by_mask.token, one_by_one.token) << "round " << round;
    ASSERT_EQ(by_mask.ok, one_by_one.ok);
  }
}

TEST(SampleRow, RefusesWhatIsNotANumberAndRowsWithNothing) {
  SampleScratch scratch;
  for (const float bad : {NAN, INFINITY}) {
    for (const size_t at_id : {0UL, 63UL, 64UL, 129UL}) {
      std::vector<float> logits(130, 0.5F);
      logits[at_id] = bad;
      Sampled out;
      sample_row(logits, at(1.0F), plain_sample_kernels(), scratch, out);
      EXPECT_FALSE(out.ok);
      EXPECT_EQ(out.token, -1);
    }
  }
  std::vector<float> none(130, -INFINITY);
  Sampled out;
  sample_row(none, at(1.0F), plain_sample_kernels(), scratch, out);
  EXPECT_FALSE(out.ok);
  none[77] = -1e30F;
  sample_row(none, at(1.0F), plain_sample_kernels(), scratch, out);
  EXPECT_EQ(out.token, 77);
  LogitEdits edits;
  edits.sparse = {{77, -INFINITY, 1.0F}};
  SampleParams s = at(1.0F);
  s.edits = &edits;
  sample_row(none, s, plain_sample_kernels(), scratch, out);
  EXPECT_FALSE(out.ok);
}

TEST(SampleRow, ExtremeParametersAlwaysGiveAToken) {
  Rng rng(11);
  SampleScratch scratch;
  for (int round = 0; round < 3000; ++round) {
    std::vector<float> logits =
        random_logits(static_cast<uint64_t>(round), static_cast<int>(rng.between(1, 200)), 1.0F);
    const double scale = std::pow(10.0, static_cast<double>(rng.between(-30, 30)));
    for (float& x : logits) x = rng.unit() < 0.2 ? -INFINITY : x * static_cast<float>(scale);
    logits[0] = 0.0F;
    const auto one_of = [&](std::initializer_list<float> v) {
      return v.begin()[rng.between(0, static_cast<int64_t>(v.size()) - 1)];
    };
    SampleParams s = at(one_of({1e-4F, 0.5F, 1.0F, 100.0F}));
    s.dynatemp_range = one_of({0.0F, 0.5F, 100.0F});
    s.dynatemp_exponent = one_of({0.0F, 1.0F, 50.0F});
    s.top_k = static_cast<int>(rng.between(0, 300));
    s.top_p = one_of({1e-9F, 0.5F, 0.99999994F, 1.0F});
    s.min_p = one_of({0.0F, 1e-30F, 0.5F, 1.0F});
    s.typical_p = one_of({1e-9F, 0.5F, 0.99999994F, 1.0F});
    s.top_n_sigma = one_of({0.0F, 1e-9F, 1.0F, 1e9F});
    s.xtc_probability = one_of({0.0F, 1.0F});
    s.xtc_threshold = one_of({0.0F, 0.1F, 0.5F});
    s.mirostat_mu = one_of({-100.0F, 0.0F, 5.0F, 1e9F});
    s.min_keep = static_cast<int>(rng.between(1, 5));
    const std::array mirostat = {kFilter<filters::Temperature>,
                                 rng.unit() < 0.5 ? kFilter<filters::Mirostat1> : kFilter<filters::Mirostat2>};
    if (rng.unit() < 0.3) s.order = mirostat;
    s.draw = rng.unit() < 0.1 ? 1.0 - 0x1p-53 : rng.unit();
    Sampled out;
    sample_row(logits, s, plain_sample_kernels(), scratch, out);
    ASSERT_TRUE(out.ok) << round;
    ASSERT_NE(logits[static_cast<size_t>(out.token)], -INFINITY);
    ASSERT_TRUE(std::isfinite(out.surprise) && out.surprise >= -1e-3F) << out.surprise;
  }
}

TEST(SampleRow, TopLogprobsFallAndTiesRise) {
  std::vector<float> logits = random_logits(2, 1000, 2.0F);
  for (size_t i = 0; i < 1000; i += 3) logits[i] = 3.0F;
  SampleScratch scratch;
  Sampled out;
  SampleParams s = at(1.0F);
  s.logprob = true;
  s.n_top = 20;
  s.forced = 5;
  sample_row(logits, s, plain_sample_kernels(), scratch, out);
  EXPECT_EQ(out.token, 5);
  ASSERT_TRUE(out.ok);
  ASSERT_EQ(out.top.size(), 20U);
  double total = 0;
  for (const float x : logits) total += std::exp(static_cast<double>(x));
  EXPECT_NEAR(out.logprob, static_cast<double>(logits[5]) - std::log(total), 1e-4);
  std::vector<size_t> order(1000);
  for (size_t i = 0; i < 1000; ++i) order[i] = i;
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) { return logits[a] > logits[b]; });
  for (size_t i = 0; i < 20; ++i) EXPECT_EQ(out.top[i].id, static_cast<Token>(order[i]));
}

// Of what the filters left: shares of the definition, the draw is the same, and equal ones rise.
TEST(SampleRow, SharesOfWhatIsDrawnFrom) {
  std::vector<float> logits = random_logits(7, 1000, 2.0F);
  SampleScratch scratch;
  for (const int top_k : {0, 5, 50}) {
    SampleParams s = at(0.7F);
    s.top_k = top_k;
    s.draw = 0.4;
    s.logprob = true;
    s.n_top = 8;
    Sampled plain, drawn;
    sample_row(logits, s, plain_sample_kernels(), scratch, plain);
    s.of_drawn = true;
    sample_row(logits, s, plain_sample_kernels(), scratch, drawn);
    ASSERT_TRUE(drawn.ok);
    EXPECT_EQ(drawn.token, plain.token);
    const size_t n_left = top_k > 0 ? static_cast<size_t>(top_k) : logits.size();
    ASSERT_EQ(drawn.top.size(), std::min<size_t>(8, n_left));
    std::vector<float> sorted = logits;
    std::sort(sorted.begin(), sorted.end(), std::greater<>());
    double total = 0;
    for (size_t i = 0; i < n_left; ++i) total += std::exp((static_cast<double>(sorted[i]) - sorted[0]) / 0.7);
    for (size_t i = 0; i < drawn.top.size(); ++i)
      EXPECT_NEAR(std::exp(drawn.top[i].logprob), std::exp((static_cast<double>(sorted[i]) - sorted[0]) / 0.7) / total,
                  1e-5);
    EXPECT_NEAR(drawn.logprob,
                (static_cast<double>(logits[static_cast<size_t>(drawn.token)]) - sorted[0]) / 0.7 - std::log(total),
                1e-4);
    s.temperature = 0.0F;
    sample_row(logits, s, plain_sample_kernels(), scratch, drawn);
    ASSERT_EQ(drawn.top.size(), 1U);
    EXPECT_EQ(drawn.top[0].id, drawn.token);
    EXPECT_EQ(drawn.logprob, 0.0F) << "it is certain";
  }
}

}  // namespace
}  // namespace quire
