// Counters, gauges and histograms, and their Prometheus text form (exposition format 0.0.4). The one idea: a metric is
// looked up once, when its owner is built; after that add(), set() and observe() are relaxed atomics on a fixed
// address, so the engine counts without locks and a scrape never stops it. Label values are fixed when the metric is
// made: no request can create a series. Any thread.
#pragma once
#include <atomic>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace quire {

class Counter {
 public:
  void add(uint64_t n = 1) { value_.fetch_add(n, std::memory_order_relaxed); }
  uint64_t value() const { return value_.load(std::memory_order_relaxed); }

 private:
  std::atomic<uint64_t> value_{0};
};

class Gauge {
 public:
  void set(double v) { value_.store(v, std::memory_order_relaxed); }
  void add(double v) { value_.fetch_add(v, std::memory_order_relaxed); }
  double value() const { return value_.load(std::memory_order_relaxed); }

 private:
  std::atomic<double> value_{0};
};

// Buckets by upper bound, ascending, inclusive; one more for what is above the last. NaN is not counted.
class Histogram {
 public:
  explicit Histogram(std::vector<double> bounds);
  void observe(double v);
  uint64_t count() const;
  double sum() const { return sum_.load(std::memory_order_relaxed); }
  const std::vector<double>& bounds() const { return bounds_; }
  // Observations in bucket i alone, 0 ≤ i ≤ bounds().size().
  uint64_t bucket(size_t i) const { return buckets_[i].load(std::memory_order_relaxed); }

 private:
  const std::vector<double> bounds_;
  std::unique_ptr<std::atomic<uint64_t>[]> buckets_;
  std::atomic<double> sum_{0};
};

using MetricLabels = std::vector<std::pair<std::string, std::string>>;

// Owns every metric for as long as it lives; references stay valid.
class Metrics {
 public:
  Metrics() = default;
  Metrics(const Metrics&) = delete;
  Metrics& operator=(const Metrics&) = delete;

  // The metric of that name and those labels, made at the first call. Takes a lock: call when building, not per token.
  // REQUIRES name like [a-zA-Z_:][a-zA-Z0-9_:]*, label names like [a-zA-Z_][a-zA-Z0-9_]*; one kind, one help text and
  // (histograms) one set of bounds per name. `help` of later calls is ignored.
  Counter& counter(std::string_view name, std::string_view help, const MetricLabels& labels = {});
  Gauge& gauge(std::string_view name, std::string_view help, const MetricLabels& labels = {});
  // A counter of seconds: set to what somebody else has summed, which never falls.
  Gauge& total(std::string_view name, std::string_view help, const MetricLabels& labels = {});
  // REQUIRES bounds finite and strictly ascending.
  Histogram& histogram(std::string_view name,
                       std::string_view help,
                       const std::vector<double>& bounds,
                       const MetricLabels& labels = {});

  // Everything as Prometheus text, families in the order they were made. A scrape during counting sees each number at
  // some moment; a histogram's _count always equals its +Inf bucket.
  std::string expose() const;

 private:
  enum class Kind : uint8_t { counter, gauge, total, histogram };
  struct Series {
    std::string labels;  // a="b",c="d", escaped
    std::unique_ptr<Counter> counter;
    std::unique_ptr<Gauge> gauge;  // of a total too
    std::unique_ptr<Histogram> histogram;
  };
  struct Family {
    std::string name, help;
    Kind kind;
    std::deque<Series> series;
  };
  Series& series(std::string_view name, std::string_view help, Kind kind, const MetricLabels& labels);
  static void expose_series(std::string& out, const Family& family, const Series& series);
  static void expose_histogram(std::string& out, const Family& family, const Series& series);

  mutable std::mutex mu_;
  std::deque<Family> families_;
};

}  // namespace quire
