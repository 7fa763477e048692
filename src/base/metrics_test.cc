#include "base/metrics.h"

#include <gtest/gtest.h>

#include <cmath>
#include <thread>

namespace quire {
namespace {

TEST(Metrics, ExposesCountersAndGaugesInOrderOfCreation) {
  Metrics m;
  m.counter("quire_tokens_total", "Tokens made.").add(3);
  m.gauge("quire_running", "Running now.").set(2.5);
  m.counter("quire_rejected_total", "Refused.", {{"reason", "body"}}).add();
  m.counter("quire_rejected_total", "Refused.", {{"reason", "head"}});
  m.total("quire_busy_seconds_total", "Busy.").set(0.25);
  EXPECT_EQ(m.expose(),
            "# HELP quire_tokens_total Tokens made.\n"
            "# TYPE quire_tokens_total counter\n"
            "quire_tokens_total 3\n"
            "# HELP quire_running Running now.\n"
            "# TYPE quire_running gauge\n"
            "quire_running 2.5\n"
            "# HELP quire_rejected_total Refused.\n"
            "# TYPE quire_rejected_total counter\n"
            "quire_rejected_total{reason=\"body\"} 1\n"
            "quire_rejected_total{reason=\"head\"} 0\n"
            "# HELP quire_busy_seconds_total Busy.\n"
            "# TYPE quire_busy_seconds_total counter\n"
            "quire_busy_seconds_total 0.25\n");
}

TEST(Metrics, SameNameAndLabelsAreOneMetric) {
  Metrics m;
  Counter& a = m.counter("vllm:x_total", "h", {{"k", "v"}});
  Counter& b = m.counter("vllm:x_total", "other help", {{"k", "v"}});
  EXPECT_EQ(&a, &b);
  EXPECT_NE(&a, &m.counter("vllm:x_total", "h", {{"k", "w"}}));
}

TEST(Metrics, HistogramBucketsAreInclusiveAndCumulative) {
  Metrics m;
  Histogram& h = m.histogram("lat_seconds", "Latency.", {0.1, 1, 10}, {{"model", "a"}});
  for (const double v : {0.05, 0.1, 0.5, 10.0, 11.0, std::nan("")}) h.observe(v);
  EXPECT_EQ(h.count(), 5u);
  EXPECT_EQ(m.expose(),
            "# HELP lat_seconds Latency.\n"
            "# TYPE lat_seconds histogram\n"
            "lat_seconds_bucket{model=\"a\",le=\"0.1\"} 2\n"
            "lat_seconds_bucket{model=\"a\",le=\"1\"} 3\n"
            "lat_seconds_bucket{model=\"a\",le=\"10\"} 4\n"
            "lat_seconds_bucket{model=\"a\",le=\"+Inf\"} 5\n"
            "lat_seconds_sum{model=\"a\"} 21.65\n"
            "lat_seconds_count{model=\"a\"} 5\n");
}

TEST(Metrics, EscapesHelpAndLabelValues) {
  Metrics m;
  m.gauge("g", "a\\b\n\"c\"", {{"l", "x\\y\n\"z\""}}).set(-HUGE_VAL);
  EXPECT_EQ(m.expose(), "# HELP g a\\\\b\\n\"c\"\n# TYPE g gauge\ng{l=\"x\\\\y\\n\\\"z\\\"\"} -Inf\n");
}

TEST(Metrics, CountsFromManyThreadsExactly) {
  Metrics m;
  Counter& c = m.counter("c_total", "h");
  Gauge& g = m.gauge("g", "h");
  Histogram& h = m.histogram("h", "h", {1, 2});
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i)
    threads.emplace_back([&] {
      for (int j = 0; j < 10'000; ++j) {
        c.add();
        g.add(1);
        h.observe(1.5);
        if (j % 2500 == 0) {
          EXPECT_FALSE(m.expose().empty());
        }
      }
    });
  for (auto& t : threads) t.join();
  EXPECT_EQ(c.value(), 40'000u);
  EXPECT_EQ(g.value(), 40'000.0);
  EXPECT_EQ(h.bucket(1), 40'000u);
  EXPECT_EQ(h.sum(), 60'000.0);
}

TEST(MetricsDeathTest, RefusesBadNamesAndTwoKinds) {
  Metrics m;
  EXPECT_DEATH(m.counter("1bad", "h"), "metric name");
  EXPECT_DEATH(m.counter("ok", "h", {{"a:b", "v"}}), "label name");
  m.counter("twice", "h");
  EXPECT_DEATH(m.gauge("twice", "h"), "two kinds");
}

}  // namespace
}  // namespace quire
