// The registry and the text writer. Source of the format: the Prometheus exposition format 0.0.4 as documented.
#include "base/metrics.h"

#include <algorithm>
#include <charconv>
#include <cmath>

#include "base/check.h"

namespace quire {
namespace {

bool valid_name(std::string_view name, bool colon) {
  if (name.empty() || (name[0] >= '0' && name[0] <= '9')) return false;
  return std::all_of(name.begin(), name.end(), [colon](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
           (colon && c == ':');
  });
}

void append_escaped(std::string& out, std::string_view text, bool quotes) {
  for (const char c : text) {
    if (c == '\\')
      out += "\\\\";
    else if (c == '\n')
      out += "\\n";
    else if (c == '"' && quotes)
      out += "\\\"";
    else
      out += c;
  }
}

void append_number(std::string& out, double v) {
  if (std::isnan(v)) {
    out += "NaN";
  } else if (std::isinf(v)) {
    out += v > 0 ? "+Inf" : "-Inf";
  } else {
    char text[32];
    out.append(text, std::to_chars(text, text + sizeof text, v).ptr);
  }
}

void append_sample(std::string& out, std::string_view name, std::string_view suffix, std::string_view labels) {
  out.append(name).append(suffix);
  if (!labels.empty()) out.append("{").append(labels).append("}");
  out += ' ';
}

}  // namespace

Histogram::Histogram(std::vector<double> bounds)
    : bounds_(std::move(bounds)), buckets_(std::make_unique<std::atomic<uint64_t>[]>(bounds_.size() + 1)) {
  for (size_t i = 0; i < bounds_.size(); ++i)
    QR_CHECK(std::isfinite(bounds_[i]) && (i == 0 || bounds_[i - 1] < bounds_[i]), "histogram bounds must ascend");
}

void Histogram::observe(double v) {
  if (std::isnan(v)) return;
  const auto it = std::lower_bound(bounds_.begin(), bounds_.end(), v);
  buckets_[static_cast<size_t>(it - bounds_.begin())].fetch_add(1, std::memory_order_relaxed);
  sum_.fetch_add(v, std::memory_order_relaxed);
}

uint64_t Histogram::count() const {
  uint64_t n = 0;
  for (size_t i = 0; i <= bounds_.size(); ++i) n += bucket(i);
  return n;
}

Metrics::Series& Metrics::series(std::string_view name, std::string_view help, Kind kind, const MetricLabels& labels) {
  QR_CHECK(valid_name(name, true), "metric name: " + std::string(name));
  std::string text;
  for (const auto& [label, value] : labels) {
    QR_CHECK(valid_name(label, false), "label name: " + label);
    if (!text.empty()) text += ',';
    text.append(label).append("=\"");
    append_escaped(text, value, true);
    text += '"';
  }
  auto family = std::find_if(families_.begin(), families_.end(), [&](const Family& f) { return f.name == name; });
  if (family == families_.end()) {
    families_.push_back({std::string(name), std::string(help), kind, {}});
    family = families_.end() - 1;
  }
  QR_CHECK(family->kind == kind, "metric made as two kinds: " + std::string(name));
  for (Series& s : family->series)
    if (s.labels == text) return s;
  Series& fresh = family->series.emplace_back();
  fresh.labels = std::move(text);
  return fresh;
}

Counter& Metrics::counter(std::string_view name, std::string_view help, const MetricLabels& labels) {
  std::lock_guard lock(mu_);
  Series& s = series(name, help, Kind::counter, labels);
  if (!s.counter) s.counter = std::make_unique<Counter>();
  return *s.counter;
}

Gauge& Metrics::gauge(std::string_view name, std::string_view help, const MetricLabels& labels) {
  std::lock_guard lock(mu_);
  Series& s = series(name, help, Kind::gauge, labels);
  if (!s.gauge) s.gauge = std::make_unique<Gauge>();
  return *s.gauge;
}
Gauge& Metrics::total(std::string_view name, std::string_view help, const MetricLabels& labels) {
  std::lock_guard lock(mu_);
  Series& s = series(name, help, Kind::total, labels);
  if (!s.gauge) s.gauge = std::make_unique<Gauge>();
  return *s.gauge;
}

Histogram& Metrics::histogram(std::string_view name,
                              std::string_view help,
                              const std::vector<double>& bounds,
                              const MetricLabels& labels) {
  std::lock_guard lock(mu_);
  Series& s = series(name, help, Kind::histogram, labels);
  if (!s.histogram) s.histogram = std::make_unique<Histogram>(bounds);
  QR_CHECK(s.histogram->bounds() == bounds, "histogram made with two sets of bounds: " + std::string(name));
  return *s.histogram;
}

void Metrics::expose_histogram(std::string& out, const Family& family, const Series& s) {
  const Histogram& h = *s.histogram;
  const std::string comma = s.labels.empty() ? "" : ",";
  uint64_t below = 0;  // the buckets are read once, so that _count equals +Inf in every scrape
  for (size_t i = 0; i <= h.bounds().size(); ++i) {
    below += h.bucket(i);
    std::string le = s.labels + comma + "le=\"";
    append_number(le, i < h.bounds().size() ? h.bounds()[i] : HUGE_VAL);
    append_sample(out, family.name, "_bucket", le + '"');
    out.append(std::to_string(below)).append("\n");
  }
  append_sample(out, family.name, "_sum", s.labels);
  append_number(out, h.sum());
  out += '\n';
  append_sample(out, family.name, "_count", s.labels);
  out.append(std::to_string(below)).append("\n");
}

void Metrics::expose_series(std::string& out, const Family& family, const Series& s) {
  if (family.kind == Kind::histogram) return expose_histogram(out, family, s);
  append_sample(out, family.name, "", s.labels);
  if (family.kind == Kind::counter)
    out += std::to_string(s.counter->value());
  else
    append_number(out, s.gauge->value());
  out += '\n';
}

std::string Metrics::expose() const {
  static constexpr std::string_view kKinds[] = {"counter", "gauge", "counter", "histogram"};
  std::lock_guard lock(mu_);
  std::string out;
  for (const Family& family : families_) {
    out.append("# HELP ").append(family.name).append(" ");
    append_escaped(out, family.help, false);
    out.append("\n# TYPE ").append(family.name).append(" ");
    out.append(kKinds[static_cast<size_t>(family.kind)]).append("\n");
    for (const Series& s : family.series) expose_series(out, family, s);
  }
  return out;
}

}  // namespace quire
