#include "app/load/report.h"

#include <cstdio>

namespace quire {
namespace {

constexpr double kNsPerMs = 1e6;
constexpr size_t kMaxSeconds = 1 << 20;

double ms(int64_t ns) { return static_cast<double>(ns) / kNsPerMs; }

Json summary(const LatencyHistogram& h) {
  Json out;
  out.set("n", h.count());
  out.set("mean", h.mean() / kNsPerMs);
  for (const auto& [name, percent] : {std::pair{"p50", 50.0}, std::pair{"p90", 90.0}, std::pair{"p95", 95.0},
                                      std::pair{"p99", 99.0}, std::pair{"p99.9", 99.9}}) {
    out.set(name, ms(h.percentile(percent)));
  }
  out.set("max", ms(h.max()));
  return out;
}

std::string row(const char* name, const LatencyHistogram& h) {
  char line[160];
  std::snprintf(line, sizeof line, "%-14s %10.1f %10.1f %10.1f %10.1f %10.1f %10.1f\n", name, h.mean() / kNsPerMs,
                ms(h.percentile(50)), ms(h.percentile(90)), ms(h.percentile(95)), ms(h.percentile(99)), ms(h.max()));
  return h.count() > 0 ? line : "";
}

}  // namespace

LoadReport::Second& LoadReport::second_of(int64_t at_ns) {
  const auto s = static_cast<size_t>(std::max<int64_t>(at_ns - start_ns_, 0) / 1'000'000'000);
  if (s >= timeline_.size()) timeline_.resize(std::min(s + 1, kMaxSeconds));
  return timeline_[std::min(s, timeline_.size() - 1)];
}

bool LoadReport::is_good(int64_t due_ns, const RemoteAnswer& a, int64_t n_tokens) const {
  if (a.piece_ns.empty()) return false;
  const double n_gaps = static_cast<double>(std::max<int64_t>(n_tokens - 1, 1));
  return (slo_.ttft_ms <= 0 || ms(a.piece_ns.front() - due_ns) <= slo_.ttft_ms) &&
         (slo_.tpot_ms <= 0 || ms(a.piece_ns.back() - a.piece_ns.front()) / n_gaps <= slo_.tpot_ms) &&
         (slo_.e2e_ms <= 0 || ms(a.done_ns - due_ns) <= slo_.e2e_ms);
}

void LoadReport::add(int64_t due_ns, const RemoteAnswer& a) {
  end_ns_ = std::max(end_ns_, a.done_ns);
  ++second_of(due_ns).n_begun;
  ++second_of(a.done_ns).n_ended;
  if (a.sent_ns > 0) lag_.record(std::max<int64_t>(a.sent_ns - due_ns, 0));
  for (size_t i = 0; i < a.piece_ns.size(); ++i) {
    ++second_of(a.piece_ns[i]).n_pieces;
    if (i > 0) itl_.record(std::max<int64_t>(a.piece_ns[i] - a.piece_ns[i - 1], 0));
  }
  const int64_t n_tokens = a.n_generated >= 0 ? a.n_generated : static_cast<int64_t>(a.piece_ns.size());
  n_tokens_ += n_tokens;
  n_prompt_ += std::max<int64_t>(a.n_prompt, 0);
  n_cached_ += std::max<int64_t>(a.n_cached, 0);
  if (!a.piece_ns.empty()) ttft_.record(std::max<int64_t>(a.piece_ns.front() - due_ns, 0));
  if (!a.failure.empty()) {
    ++n_failed_;
    ++second_of(a.done_ns).n_failed;
    ++failures_[a.failure];
    examples_.try_emplace(a.failure, a.message);
    if (a.failure.starts_with("http_")) refusal_.record(std::max<int64_t>(a.done_ns - due_ns, 0));
    return;
  }
  if (a.left) {
    ++n_left_;
    return;
  }
  ++n_ok_;
  e2e_.record(std::max<int64_t>(a.done_ns - due_ns, 0));
  if (n_tokens > 1 && !a.piece_ns.empty()) tpot_.record((a.piece_ns.back() - a.piece_ns.front()) / (n_tokens - 1));
  if (!is_good(due_ns, a, n_tokens)) return;
  ++n_good_;
  n_good_tokens_ += n_tokens;
}

Json LoadReport::json() const {
  const double s = seconds() > 0 ? seconds() : 1.0;
  Json requests, failures(Json::Object{}), out;
  requests.set("ended", n_ended());
  requests.set("ok", n_ok_);
  requests.set("left", n_left_);
  requests.set("failed", n_failed_);
  for (const auto& [kind, n] : failures_) {
    Json entry;
    entry.set("n", n);
    entry.set("example", examples_.at(kind));
    failures.set(kind, std::move(entry));
  }
  out.set("duration_s", seconds());
  out.set("requests", std::move(requests));
  out.set("failures", std::move(failures));
  out.set("requests_s", static_cast<double>(n_ok_) / s);
  out.set("output_tokens", n_tokens_);
  out.set("output_tok_s", static_cast<double>(n_tokens_) / s);
  out.set("prompt_tokens", n_prompt_);
  out.set("cached_tokens", n_cached_);
  out.set("ttft_ms", summary(ttft_));
  out.set("itl_ms", summary(itl_));
  out.set("tpot_ms", summary(tpot_));
  out.set("e2e_ms", summary(e2e_));
  out.set("refusal_ms", summary(refusal_));
  out.set("send_lag_ms", summary(lag_));
  Json goodput;
  goodput.set("slo_ttft_ms", slo_.ttft_ms);
  goodput.set("slo_tpot_ms", slo_.tpot_ms);
  goodput.set("slo_e2e_ms", slo_.e2e_ms);
  goodput.set("requests", n_good_);
  goodput.set("requests_s", static_cast<double>(n_good_) / s);
  goodput.set("tok_s", static_cast<double>(n_good_tokens_) / s);
  goodput.set("share", n_ended() > 0 ? static_cast<double>(n_good_) / static_cast<double>(n_ended()) : 0.0);
  out.set("goodput", std::move(goodput));
  return out;
}

std::string LoadReport::text() const {
  const double s = seconds() > 0 ? seconds() : 1.0;
  char line[256];
  std::snprintf(line, sizeof line, "%ld requests in %.1f s: %ld complete, %ld left early, %ld failed\n",
                static_cast<long>(n_ended()), seconds(), static_cast<long>(n_ok_), static_cast<long>(n_left_),
                static_cast<long>(n_failed_));
  std::string out = line;
  for (const auto& [kind, n] : failures_)
    out += "  " + std::to_string(n) + " × " + kind + ": " + examples_.at(kind) + "\n";
  std::snprintf(line, sizeof line,
                "%.2f requests/s, %.1f output tok/s; prompts %.1f tok/s, of them from the cache %.1f %%\n",
                static_cast<double>(n_ok_) / s, static_cast<double>(n_tokens_) / s, static_cast<double>(n_prompt_) / s,
                n_prompt_ > 0 ? 100.0 * static_cast<double>(n_cached_) / static_cast<double>(n_prompt_) : 0.0);
  out += line;
  if (slo_.any()) {
    std::snprintf(line, sizeof line, "goodput: %.2f requests/s, %.1f tok/s (%.1f %% of the requests)\n",
                  static_cast<double>(n_good_) / s, static_cast<double>(n_good_tokens_) / s,
                  n_ended() > 0 ? 100.0 * static_cast<double>(n_good_) / static_cast<double>(n_ended()) : 0.0);
    out += line;
  }
  std::snprintf(line, sizeof line, "%-14s %10s %10s %10s %10s %10s %10s\n", "milliseconds", "mean", "p50", "p90", "p95",
                "p99", "max");
  out += line;
  return out + row("first text", ttft_) + row("between texts", itl_) + row("per token", tpot_) + row("whole", e2e_) +
         row("refusal", refusal_) + row("sent late by", lag_);
}

std::string LoadReport::timeline_csv() const {
  std::string out = "second,begun,ended,failed,pieces\n";
  for (size_t i = 0; i < timeline_.size(); ++i) {
    const Second& s = timeline_[i];
    out += std::to_string(i) + "," + std::to_string(s.n_begun) + "," + std::to_string(s.n_ended) + "," +
           std::to_string(s.n_failed) + "," + std::to_string(s.n_pieces) + "\n";
  }
  return out;
}

}  // namespace quire
