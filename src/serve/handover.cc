#include "serve/handover.h"

#include <algorithm>
#include <charconv>
#include <ctime>
#include <optional>
#include <utility>

#include "base/hash128.h"
#include "engine/request.h"
#include "serve/api.h"
#include "serve/openai.h"
#include "serve/resumable_stream.h"
#include "serve/seeds.h"

namespace quire {
namespace {

constexpr Field kHandover[] = {field_of("handover", kObject)};
constexpr Field kInner[] = {
    {.name = "ticket", .kinds = kString, .max = 4096},
    field_of("choices", kArray, &ServeLimits::n_sequences),
    integer_field("n_events", 0, 1LL << 40),
    field_of("past", kArray, &ServeLimits::n_messages),
};
constexpr Field kChoice[] = {
    field_of("tokens", kArray, &ServeLimits::n_detokenize),
    integer_field("told_bytes", 0, 1LL << 40),
    flag_field("over"),
};

constexpr size_t kFieldDigits = 8;

// "key.seed.id.created.calls.fields": numbers in hexadecimal digits.
struct Ticket {
  uint64_t key = 0;  // of all that the answer depends on but its seed and the request's fields
  uint64_t seed = 0;
  AnswerName name;
  std::string fields;  // Handover::fields, their hashes one behind the other

  std::string text() const {
    return hex64(key) + "." + hex64(seed) + "." + name.id + "." + hex64(static_cast<uint64_t>(name.created_s)) + "." +
           hex64(name.calls) + "." + fields;
  }
};

std::string digits_of(const AskedField& field) { return hex64(field.hash).substr(16 - kFieldDigits); }

std::string digits_of(std::span<const AskedField> fields) {
  std::string out;
  for (const AskedField& field : fields) out += digits_of(field);
  return out;
}

// Takes what is before the next full stop.
std::string_view next_part(std::string_view& text) {
  const std::string_view part = text.substr(0, text.find('.'));
  text.remove_prefix(std::min(text.size(), part.size() + 1));
  return part;
}

std::optional<uint64_t> read_hex(std::string_view text) {
  uint64_t out = 0;
  if (text.size() != 16) return std::nullopt;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), out, 16);
  return error == std::errc() && end == text.data() + text.size() ? std::optional(out) : std::nullopt;
}

std::optional<Ticket> read_ticket(std::string_view text) {
  const auto key = read_hex(next_part(text)), seed = read_hex(next_part(text));
  const std::string_view id = next_part(text);
  const auto created = read_hex(next_part(text)), calls = read_hex(next_part(text));
  Hash128 digits;
  if (!key || !seed || !created || !calls || !from_hex(id, digits)) return std::nullopt;
  return Ticket{*key, *seed, {to_hex(digits), *calls, static_cast<int64_t>(*created)}, std::string(text)};
}

std::vector<AskedField> asked_fields(const Args& args) {
  static constexpr std::string_view kPrompts[] = {"messages", "prompt", "input", "input_ids"};  // may be long
  std::vector<AskedField> out;
  args.each([&](std::string_view name, const Json& value) {
    if (name == kHandover[0].name || std::ranges::find(kPrompts, name) != std::end(kPrompts)) return;
    const std::string text = std::string(name) + ":" + value.dump();
    out.push_back({static_cast<uint32_t>(hash128(text.data(), text.size(), 1).lo), name});
  });
  std::ranges::sort(out, {}, &AskedField::hash);
  return out;
}

// Of a ticket that this server would not have given: a field of the request that is not as it was says why, where there
// is one.
HttpError refusal_of(const Handover& h, std::string_view given) {
  const auto before = read_ticket(given);
  const std::string was = before ? before->fields : "";
  size_t n_same = 0;
  for (const AskedField& field : h.fields) {
    size_t at = 0;
    while (at < was.size() && was.compare(at, kFieldDigits, digits_of(field)) != 0) at += kFieldDigits;
    if (at >= was.size())
      return {409, "'" + std::string(field.name) + "' is not as in the request whose answer is to go on",
              "invalid_request_error", std::string(field.name), "handover_mismatch"};
    ++n_same;
  }
  if (n_same * kFieldDigits < was.size())
    return handover_mismatch("ticket", "is of a request that had more fields, so of another answer");
  return handover_mismatch("ticket", "is of another answer");
}

class Key {
 public:
  void add(std::string_view text) { (bytes_ += std::to_string(text.size()) + ":") += text; }
  void add(int64_t value) { bytes_ += std::to_string(value) + ","; }
  void add(std::span<const Token> ids) {
    const Hash128 hash = hash128(ids.data(), ids.size_bytes(), 1);  // they may be millions
    for (const uint64_t part : {hash.lo, hash.hi}) add(static_cast<int64_t>(part));
  }
  uint64_t value() const { return hash128(bytes_.data(), bytes_.size(), 1).lo; }

 private:
  std::string bytes_;
};

// Beside the request's fields this is what servers may differ in: the model with its numerics and tokenizer, the
// program, what stands before a request's own words, and what it gets that does not say.
uint64_t key_of(const ServeEnv& env, std::span<const int> max_tokens, const Job& job) {
  const Generation& g = job.generation;
  Key key;
  key.add(QR_VERSION);
  key.add(static_cast<int64_t>(env.card.digest));
  key.add(answering_model(env, g));
  key.add(static_cast<int64_t>(g.adapter != nullptr  ? g.adapter->content
                               : g.prefix != nullptr ? g.prefix->content
                                                     : 0));
  for (const auto& prompt : job.prompts) key.add(prompt);
  for (const int n : max_tokens) key.add(int64_t{n});
  key.add(int64_t{g.n});
  key.add(g.stop_ids);
  key.add(int64_t{g.ignore_eos});
  for (const SamplingDefault& row : env.sampling.rows()) {
    key.add(row.field);
    key.add(std::to_string(row.value));
  }
  for (const int64_t form : {static_cast<int64_t>(job.reasoning), int64_t{job.reasoning_open},
                             int64_t{job.calls != nullptr}, g.thinking_tokens})
    key.add(form);
  return key.value();
}

// How far a prompt is, is a matter of one server.
bool can_go_on(const Job& job) {
  const Generation& g = job.generation;
  return job.stream && g.best_of == g.n && !g.prompt_only && g.sampling.n_prompt_logprobs < 0 && !job.tells_progress;
}

// Whether tokens and bytes of text do not say all of how far such an answer is: mirostat goes by how each token was
// drawn, and a dialect that says all again at the end needs the logprobs of what another has told.
bool needs_all(const Job& job) {
  const SamplingParams& s = job.generation.sampling;
  return s.mirostat != 0 || (s.n_logprobs >= 0 && job.writer->keeps_all());
}

ApiResult<void> read_choices(const Json& list, const ApiRequest& request, const ServeEnv& env, Handover& h) {
  static const Schema kSchema({kChoice});
  for (const Json& one : *list.as_array()) {
    const std::string path = at_index("handover.choices", std::ssize(h.choices));
    QR_TRY(const Args args, kSchema.check(one, request.reading, path));
    ToldChoice& told = h.choices.emplace_back();
    if (const Json* ids = args.find("tokens"))
      QR_TRY_VOID(read_token_ids(*ids, at_key(path, "tokens"), env.tokenizer->n_vocab(), told.output));
    told.any = args.has("tokens") || args.has("told_bytes");
    told.over = args.flag("over", false);
    told.told_bytes = args.integer("told_bytes", 0);
  }
  return {};
}

}  // namespace

std::span<const Field> handover_fields() { return kHandover; }

HttpError handover_mismatch(std::string_view field, std::string_view what) {
  const std::string path = at_key("handover", field);
  return {409, "'" + path + "' " + std::string(what) + " than this server gives to the request",
          "invalid_request_error", path, "handover_mismatch"};
}

ApiResult<void> read_handover(const ApiRequest& request, const ServeEnv& env, Job& job) {
  Handover& h = job.handover;
  h.asked =
      request.http.header(kHandoverHeader) != nullptr && request.http.header(kResumableHeader) == nullptr && job.stream;
  const Json* given = request.args.find("handover");
  if (h.asked || given != nullptr) h.fields = asked_fields(request.args);
  if (given == nullptr) {
    job.name.id = env.seeds->id();
    job.name.calls = env.seeds->next();
    job.name.created_s = std::time(nullptr);
    return {};
  }
  static const Schema kSchema({kInner});
  QR_TRY(const Args inner, kSchema.check(*given, request.reading, "handover"));
  const auto ticket = read_ticket(inner.text("ticket"));
  if (!ticket) return refuse(bad_field("handover.ticket", "is none that a server gives"));
  if (const Json* choices = inner.find("choices")) QR_TRY_VOID(read_choices(*choices, request, env, h));
  if (const Json* past = inner.find("past")) h.told_past = *past;
  h.goes_on = true;
  h.ticket = ticket->text();
  h.n_events = inner.integer("n_events", 0);
  job.name = ticket->name;
  job.generation.sampling.seed = ticket->seed;
  return {};
}

ApiResult<void> settle_handover(const ServeEnv& env, std::span<const int> max_tokens, Job& job) {
  Handover& h = job.handover;
  if (!h.asked && !h.goes_on) return {};
  const bool can = can_go_on(job);
  const uint64_t key = can ? key_of(env, max_tokens, job) : 0;
  const std::string ticket = Ticket{key, job.generation.sampling.seed, job.name, digits_of(h.fields)}.text();
  if (h.goes_on && (!can || ticket != h.ticket)) return refuse(refusal_of(h, h.ticket));
  h.asked = h.asked && can;
  h.ticket = ticket;
  if (!h.goes_on) return {};
  h.anew = needs_all(job);
  const size_t n = job.prompts.size() * static_cast<size_t>(job.generation.best_of);
  if (h.choices.size() > n)
    return refuse(bad_field("handover.choices", "has " + std::to_string(h.choices.size()) +
                                                    " entries: the answer has " + std::to_string(n) + " choices"));
  h.choices.resize(n);
  for (size_t i = 0; i < n; ++i) {
    const size_t n_told = h.choices[i].output.size(), prompt = i / static_cast<size_t>(job.generation.best_of);
    if (n_told == 0 || std::cmp_less(n_told, max_tokens[prompt])) continue;
    return refuse(bad_field(at_key(at_index("handover.choices", static_cast<int64_t>(i)), "tokens"),
                            "are " + std::to_string(n_told) + " of an answer of at most " +
                                std::to_string(max_tokens[prompt]) + ": nothing is left to say"));
  }
  return {};
}

void append_mark(std::string& out, const HandoverMark& mark, bool among_lines) {
  out += ": handover ";
  if (mark.over) {
    out += "end";
  } else {
    for (const Token id : mark.ids) {
      if (out.back() != ' ') out += ',';
      out += std::to_string(id);
    }
  }
  out += ' ' + std::to_string(mark.told_bytes);
  if (mark.choice > 0 || mark.n_events >= 0) out += ' ' + std::to_string(mark.choice);
  if (mark.n_events >= 0) out += ' ' + std::to_string(mark.n_events);
  out += among_lines ? "\n" : "\n\n";
}

void append_past(std::string& out, const std::string& past, int64_t n_events) {
  out += ": handover past " + std::to_string(n_events) + " " + past + "\n\n";
}

}  // namespace quire
