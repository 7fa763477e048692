#include "serve/llama_names.h"

#include "base/json.h"

namespace quire {
namespace {

double seconds(int64_t ns) { return static_cast<double>(ns) * 1e-9; }
double ratio(double n, double of) { return of > 0 ? n / of : 0.0; }

class Lines {
 public:
  void counter(const char* name, const char* help, double value) { add(name, help, "counter", value); }
  void gauge(const char* name, const char* help, double value) { add(name, help, "gauge", value); }
  std::string text;

 private:
  void add(const std::string& name, const char* help, const char* kind, double value) {
    const std::string full = "llamacpp:" + name;
    text += "# HELP " + full + " " + help + "\n# TYPE " + full + " " + kind + "\n" + full + " ";
    append_json_number(text, value);
    text += '\n';
  }
};

}  // namespace

std::string llama_lines(const EngineStats& s, int64_t n_tokens_max) {
  const auto n = [](int64_t v) { return static_cast<double>(v); };
  const int64_t n_computed = s.n_prompt_tokens - s.n_cached_tokens;
  const double prompt_s = seconds(s.spent.prefill_ns), predicted_s = seconds(s.spent.decode_ns);
  const int64_t n_drafted = s.spent.computed[static_cast<size_t>(Cause::draft)];
  Lines out;
  out.counter("prompt_tokens_total", "Prompt tokens that were computed.", n(n_computed));
  out.counter("prompt_tokens_cached_total", "Prompt tokens that came from the cache.", n(s.n_cached_tokens));
  out.counter("prompt_seconds_total", "Seconds of steps that computed prompts.", prompt_s);
  out.counter("tokens_predicted_total", "Tokens generated.", n(s.n_generated_tokens));
  out.counter("tokens_predicted_seconds_total", "Seconds of steps that generated tokens.", predicted_s);
  out.counter("n_decode_total", "Steps of the engine.", n(s.n_steps));
  out.counter("n_tokens_max", "Tokens of the longest sequence that has finished.", n(n_tokens_max));
  out.counter("spec_decode_num_draft_tokens_total", "Tokens that were guessed ahead.", n(n_drafted));
  out.counter("spec_decode_num_accepted_tokens_total", "Of these those that came true.", n(s.spent.n_accepted));
  out.counter("spec_decode_num_drafts_total", "Guesses that were verified.", n(s.n_drafts));
  out.gauge("prompt_tokens_seconds", "Prompt tokens computed in a second.", ratio(n(n_computed), prompt_s));
  out.gauge("predicted_tokens_seconds", "Tokens generated in a second.", ratio(n(s.n_generated_tokens), predicted_s));
  out.gauge("requests_processing", "Sequences that run.", n(s.n_running));
  out.gauge("requests_deferred", "Sequences that wait.", n(s.n_waiting));
  out.gauge("n_busy_slots_per_decode", "Rows computed in a step, on average.", ratio(n(s.n_rows), n(s.n_steps)));
  return out.text;
}

}  // namespace quire
