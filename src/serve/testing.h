// For this room's tests only: an engine whose tokens are written beforehand and whose steps are counted by the test, a
// hand-made tokenizer with byte tokens, and a server on a loopback port around both.
#pragma once
#include <gtest/gtest.h>

#include <atomic>
#include <condition_variable>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "base/json.h"
#include "base/rng.h"
#include "http/client.h"
#include "http/testing.h"
#include "serve/run.h"

namespace quire {

// Ids: 0 <unk>, 1 <s>, 2 </s>, 3 … 258 the bytes, then words.
inline constexpr Token kFirstByte = 3;
inline constexpr Token kFirstWord = kFirstByte + 256;

inline TokenizerSpec tiny_spec() {
  TokenizerSpec spec;
  spec.model = "llama";
  spec.tokens = {"<unk>", "<s>", "</s>"};
  spec.types = {TokenType::unknown, TokenType::control, TokenType::control};
  for (int b = 0; b < 256; ++b) {
    static constexpr char kHex[] = "0123456789ABCDEF";
    spec.tokens.push_back(std::string("<0x") + kHex[b >> 4] + kHex[b & 15] + ">");
    spec.types.push_back(TokenType::byte);
  }
  for (const char* word : {"\u2581", "\u2581the", "\u2581cat", "\u2581sat", "abc", "ab", "User", ":"}) {
    spec.tokens.emplace_back(word);
    spec.types.push_back(TokenType::normal);
  }
  spec.scores.assign(spec.tokens.size(), -1.0F);
  spec.unk = 0;
  spec.bos = 1;
  spec.eos = 2;
  spec.add_bos = true;
  spec.add_space_prefix = false;
  return spec;
}

inline std::unique_ptr<Tokenizer> tiny_tokenizer(TokenizerSpec spec = tiny_spec()) {
  auto made = make_tokenizer(std::move(spec));
  EXPECT_TRUE(made) << (made ? "" : made.error().message);
  return std::move(*made);
}

// One byte token per byte.
inline std::vector<Token> byte_tokens(std::string_view text) {
  std::vector<Token> out;
  for (const char c : text) out.push_back(kFirstByte + static_cast<unsigned char>(c));
  return out;
}

class FakeEngine final : public Engine {
 public:
  using Script = std::function<std::vector<Token>(const Request&)>;

  explicit FakeEngine(StepSignal& signal) : signal_(signal) {
    options_.n_ctx = 4096;
    options_.max_queue = 4096;
    script = [](const Request& r) { return default_script(r); };
  }
  ~FakeEngine() override { stop(); }

  // Lower-case letters by seed and prompt; 24 of them.
  static std::vector<Token> default_script(const Request& r) {
    std::vector<Token> out(24);
    uint64_t h = r.sampling.seed;
    for (const Token t : r.prompt) h = mix64(h ^ static_cast<uint64_t>(t));
    for (size_t i = 0; i < out.size(); ++i) out[i] = kFirstByte + 'a' + static_cast<Token>(random_bits(h, i) % 26);
    return out;
  }

  // Before start(): what a sequence generates; its end is the model's end token. Called in submit.
  Script script;
  EngineOptions options_;
  int tokens_per_step = 1;  // of each sequence
  int accepted_every = 0;   // so many-th token of an answer is a guess that came true; 0: none is
  int step_us = 0;
  int n_cached = 0, n_disk = 0;
  int64_t queue_ns = 0;     // what it predicts
  Cost cost;                // of every sequence
  Explanation explanation;  // told to whoever asks for one
  RequestViews views;       // told to whoever asks; under pause(), or before start()
  std::string no_pin;       // not empty: what is to be pinned is refused with it
  std::string error;        // not empty: every sequence fails with it after its first token

  Result<SeqId> submit(Request request, std::shared_ptr<EventSink> sink) override {
    std::vector<Token> tokens = script(request);
    std::lock_guard lock(mu_);
    if (static_cast<int>(running_.size()) >= options_.max_queue)
      return fail(Code::exhausted, "the queue is full: " + std::to_string(options_.max_queue) + " requests wait");
    Seq seq;
    seq.tokens = std::move(tokens);
    seq.request = std::move(request);
    seq.sink = std::move(sink);
    seq.n_out = static_cast<int>(seq.request.output.size());
    for (const Token known : seq.request.output)
      if (seq.request.end != nullptr) seq.request.end->accept(known);
    const SeqId id = ++last_id_;
    running_.emplace(id, std::move(seq));
    ++stats_.n_submitted;
    cv_.notify_all();
    return id;
  }
  // Holds nothing: submit looks again.
  Result<std::shared_ptr<QueuePlaces>> reserve(uint64_t, int n) override {
    const std::lock_guard lock(mu_);
    if (static_cast<int>(running_.size()) + n > options_.max_queue)
      return fail(Code::exhausted, "the queue is full: " + std::to_string(options_.max_queue) + " requests wait");
    return std::make_shared<QueuePlaces>(n, [](int) {});
  }
  void cancel(SeqId id) override {
    std::lock_guard lock(mu_);
    cancelled_.push_back(id);
    cv_.notify_all();
  }
  void start() override {
    thread_ = std::thread([this] { loop(); });
  }
  void stop() override {
    {
      std::lock_guard lock(mu_);
      stopping_ = true;
      cv_.notify_all();
    }
    if (thread_.joinable()) thread_.join();
  }
  // Steps happen only while this is false.
  void pause(bool on) {
    std::lock_guard lock(mu_);
    paused_ = on;
    cv_.notify_all();
  }
  bool step() override {
    std::map<SeqId, Seq> gone;  // destroyed without the lock, as an engine would
    {
      std::lock_guard lock(mu_);
      for (const SeqId id : cancelled_)
        if (const auto it = running_.find(id); it != running_.end()) finish(it, Finish::cancelled, gone);
      cancelled_.clear();
      if (!paused_) {
        for (auto it = running_.begin(); it != running_.end();) {
          const auto next = std::next(it);
          advance(it, gone);
          it = next;
        }
        ++stats_.n_steps;
      }
    }
    signal_.fire();
    return true;
  }
  std::vector<PinView> pins(uint64_t owner) const override { return pin_book_.of(owner); }
  bool unpin(uint64_t id, uint64_t owner) override { return pin_book_.remove(id, owner); }
  EngineStats stats() const override {
    std::lock_guard lock(mu_);
    EngineStats s = stats_;
    s.n_running = static_cast<int>(running_.size());
    s.queue_ns = queue_ns;
    return s;
  }
  RequestViews requests() const override {
    std::lock_guard lock(mu_);
    return views;
  }
  Snapshot snapshot() const override { return {}; }
  const EngineOptions& options() const override { return options_; }
  int n_running() const { return stats().n_running; }

 private:
  struct Seq {
    Request request;
    std::shared_ptr<EventSink> sink;
    std::vector<Token> tokens;
    int n_out = 0;
  };
  using Running = std::map<SeqId, Seq>;

  void loop() {
    while (true) {
      {
        std::unique_lock lock(mu_);
        cv_.wait(lock, [this] { return stopping_ || !cancelled_.empty() || (!paused_ && !running_.empty()); });
        if (stopping_) return;
      }
      step();
      if (step_us > 0) std::this_thread::sleep_for(std::chrono::microseconds(step_us));
    }
  }
  static void score_prompt(SeqId id, Seq& s) {
    const int n_top = s.request.sampling.n_prompt_logprobs;
    for (size_t i = 1; i < s.request.prompt.size() && n_top >= 0; ++i) {
      TokenEvent event;
      event.id = s.request.prompt[i];
      event.logprob = -0.5F * static_cast<float>(i);
      for (int k = 0; k < n_top; ++k) event.top.push_back({kFirstByte + 'A' + k, -1.0F});
      event.prompt = true;
      s.sink->on_token(id, event);
    }
  }
  // Number of tokens, which pooling, the last token, 0; for each token where each is wanted.
  static void pool_prompt(SeqId id, Seq& s) {
    std::vector<float> values{static_cast<float>(s.request.prompt.size()), s.request.pool == Pool::mean ? 1.0F : 2.0F,
                              static_cast<float>(s.request.prompt.back()), 0.0F};
    if (s.request.pool == Pool::all) {
      const std::vector<float> one = values;
      for (size_t i = 1; i < s.request.prompt.size(); ++i) values.insert(values.end(), one.begin(), one.end());
    }
    s.sink->on_pooled(id, values);
  }
  static void tell_progress(SeqId id, const Seq& s, int n_cached) {
    TokenEvent event;
    for (const int n_done : {n_cached, static_cast<int>(s.request.prompt.size())}) {
      event.n_done = n_done;
      s.sink->on_token(id, event);
    }
  }
  void advance(Running::iterator it, Running& gone) {
    const SeqId id = it->first;
    Seq& s = it->second;
    if (s.request.explain != nullptr) {
      s.sink->on_explained(id, explanation);
      return finish(it, Finish::stop, gone);
    }
    if (s.n_out == 0 && s.request.tells_progress) tell_progress(id, s, n_cached);
    if (s.n_out == 0) score_prompt(id, s);
    if (s.n_out == 0 && s.request.pool != Pool::none) pool_prompt(id, s);
    for (int i = 0; i < tokens_per_step; ++i) {
      if (s.n_out >= static_cast<int>(s.tokens.size())) return finish_by_token(it, gone);
      TokenEvent event;
      event.id = s.tokens[static_cast<size_t>(s.n_out)];
      for (const Token stop : s.request.stop_ids)
        if (event.id == stop) return finish_by_token(it, gone);
      event.logprob = -0.25F * static_cast<float>(event.id % 7);
      for (int k = 0; k < s.request.sampling.n_logprobs; ++k)
        event.top.push_back({kFirstByte + 'A' + k, -0.5F * static_cast<float>(k)});
      ++s.n_out;
      event.accepted = accepted_every > 0 && s.n_out % accepted_every == 0;
      ++stats_.n_generated_tokens;
      const bool ends = s.request.end != nullptr && s.request.end->accept(event.id);
      s.sink->on_token(id, event);
      if (!error.empty()) return finish(it, Finish::error, gone);
      if (ends) return finish(it, Finish::stop, gone);
      if (s.n_out >= s.request.max_tokens) return finish(it, Finish::length, gone);
    }
  }
  // A token that ends the answer is counted, as the engine does, and is no part of it.
  void finish_by_token(Running::iterator it, Running& gone) {
    ++it->second.n_out;
    ++stats_.n_generated_tokens;
    finish(it, Finish::stop, gone);
  }
  void finish(Running::iterator it, Finish how, Running& gone) {
    Seq& s = it->second;
    Usage usage;
    usage.n_prompt = static_cast<int>(s.request.prompt.size());
    usage.n_generated = s.n_out;
    usage.n_cached = n_cached;
    usage.n_disk = n_disk;
    usage.cost = cost;
    usage.queued_ns = 1;
    usage.first_token_ns = s.n_out > 0 ? 2 : 0;
    usage.total_ns = 3;
    if (s.request.pin.id != 0 && how != Finish::cancelled) pin(s.request, how, usage);
    ++(how == Finish::cancelled ? stats_.n_cancelled : stats_.n_finished);
    s.sink->on_finish(it->first, how, usage, how != Finish::error ? "" : usage.n_pinned < 0 ? no_pin : error);
    gone.insert(running_.extract(it));
  }

  // Blocks of 16 tokens before the last.
  void pin(const Request& request, Finish& how, Usage& usage) {
    usage.n_pinned = no_pin.empty() ? (usage.n_prompt - 1) / 16 * 16 : -1;
    if (!no_pin.empty()) how = Finish::error;
    if (no_pin.empty()) pin_book_.add({request.pin.id, request.pin.owner, usage.n_pinned, usage.n_pinned * 100});
  }

  StepSignal& signal_;
  PinBook pin_book_;
  mutable std::mutex mu_;
  std::condition_variable cv_;
  Running running_;
  std::vector<SeqId> cancelled_;
  SeqId last_id_ = 0;
  bool stopping_ = false, paused_ = false;
  EngineStats stats_;
  std::thread thread_;
};

// What a server draws, from a seed.
inline RandomSource counted_random(uint64_t seed) {
  const auto n = std::make_shared<std::atomic<uint64_t>>(0);
  return [seed, n] { return random_bits(seed, n->fetch_add(1)); };
}

// Messages one behind the other, each ended by </s>.
inline constexpr const char* kTurnsTemplate =
    "{% for m in messages %}[{{ m['role'] }}]{{ m['content'] }}</s>{% endfor %}"
    "{% if add_generation_prompt %}[assistant]{% endif %}";

// A server around a FakeEngine. Set the engine and the options, then start().
class TestServer {
 public:
  TestServer() : tokenizer(tiny_tokenizer()), engine(signal) {
    options.port = 0;
    options.models = {"tiny"};
    options.random = counted_random(1);
    options.guard.hosts = {"x"};  // what raw clients say
  }
  ~TestServer() {
    serving.reset();
    engine.stop();
  }
  void start() {
    auto started = start_serving(options, engine, *tokenizer, metrics, signal);
    ASSERT_TRUE(started) << started.error().message;
    serving = std::move(*started);
    engine.start();
  }

  HttpClient client(int timeout_ms = 10'000) const {
    ClientOptions o;
    o.port = serving->port();
    o.timeout_ms = timeout_ms;
    return HttpClient(o);
  }
  HttpResponse post(const std::string& path, const std::string& body, HttpHeaders headers = {}) const {
    headers.push_back({"Content-Type", "application/json"});
    auto response = client().request({"POST", path, std::move(headers), body});
    EXPECT_TRUE(response) << (response ? "" : response.error().message);
    return response ? std::move(*response) : HttpResponse{};
  }
  HttpResponse get(const std::string& path, HttpHeaders headers = {}) const {
    auto response = client().request({"GET", path, std::move(headers), ""});
    EXPECT_TRUE(response) << (response ? "" : response.error().message);
    return response ? std::move(*response) : HttpResponse{};
  }
  // The text of these, control tokens by name.
  std::string text_of(const std::vector<Token>& ids) const {
    std::string out;
    for (const Token id : ids) tokenizer->append_bytes(id, true, out);
    return out;
  }
  // The data of every event of a streamed answer; the status where it is not 200.
  struct Events {
    int status = 0;
    std::vector<SseEvent> list;
    std::string body;  // of an error
  };
  Events stream(const std::string& path, const std::string& body) const {
    Events out;
    auto c = client();
    auto response = c.events({"POST", path, {{"Content-Type", "application/json"}}, body}, [&](SseEvent&& e, int64_t) {
      out.list.push_back(std::move(e));
      return true;
    });
    EXPECT_TRUE(response) << (response ? "" : response.error().message);
    if (response) out.status = response->status;
    if (response) out.body = response->body;
    return out;
  }
  std::string metric(const std::string& line_start) const {
    const std::string all = get("/metrics").body;
    const size_t at = all.find("\n" + line_start + " ");
    return at == std::string::npos
               ? ""
               : all.substr(at + line_start.size() + 2, all.find('\n', at + 1) - at - line_start.size() - 2);
  }

  StepSignal signal;
  Metrics metrics;
  std::unique_ptr<Tokenizer> tokenizer;
  FakeEngine engine;
  ServeOptions options;
  std::unique_ptr<Serving> serving;
};

inline Json parse_json(std::string_view text) {
  auto json = Json::parse(text);
  EXPECT_TRUE(json) << text;
  return json ? std::move(*json) : Json();
}

// json_at(value, "choices", 0, "text"): null where there is no such thing.
inline Json json_at(const Json& value) { return value; }
template <class... Rest>
Json json_at(const Json& value, const char* key, Rest... rest) {
  const Json* found = value.find(key);
  return found != nullptr ? json_at(*found, rest...) : Json();
}
template <class... Rest>
Json json_at(const Json& value, int index, Rest... rest) {
  const auto* list = value.as_array();
  const auto i = static_cast<size_t>(index);
  return list != nullptr && i < list->size() ? json_at((*list)[i], rest...) : Json();
}
inline std::string text_at(const Json& value) {
  return value.as_string() != nullptr ? *value.as_string() : "(no string)";
}

// The elements of an array, none of anything else.
inline Json::Array list_of(const Json& value) {
  return value.as_array() != nullptr ? *value.as_array() : Json::Array();
}
inline int64_t int_at(const Json& value) { return value.as_int() != nullptr ? *value.as_int() : -1; }

// The text of choice `index`, joined over the chunks of a stream.
inline std::string joined_text(const TestServer::Events& events, int64_t index = 0) {
  std::string out;
  for (const SseEvent& e : events.list) {
    if (e.data == "[DONE]") continue;
    const Json chunk = parse_json(e.data);
    const Json choice = json_at(chunk, "choices", 0);
    if (int_at(json_at(choice, "index")) != index) continue;
    const Json text = json_at(choice, "text"), content = json_at(choice, "delta", "content");
    if (text.as_string() != nullptr) out += *text.as_string();
    if (content.as_string() != nullptr) out += *content.as_string();
  }
  return out;
}

}  // namespace quire
