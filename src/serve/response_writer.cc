#include "serve/response_writer.h"

#include "serve/custom_tools.h"
#include "serve/logprobs.h"
#include "serve/timings.h"
#include "serve/tools.h"

namespace quire {
namespace {

class Writer final : public ReplyWriter {
 public:
  Writer(const ServeEnv& env, ResponseForm form, KeepResponse keep)
      : tokenizer_(*env.tokenizer),
        echo_(std::move(form.echo)),
        keep_(std::move(keep)),
        timings_(form.timings),
        customs_(std::move(form.customs)),
        number_(std::move(form.name.id)),
        ids_(form.name.calls),
        created_(form.name.created_s) {}

  void begin(int64_t n_prompt, std::string& out) override {
    running_.begin(n_prompt);
    for (const char* type : {"response.created", kInProgress}) event(out, type, response_so_far());
  }
  void progress(int, const PromptProgress& progress, std::string& out) override {
    std::string rest = response_so_far() + ",\"prompt_progress\":" + running_.progress(progress).dump();
    if (timings_) rest += ",\"timings\":" + running_.of_prompt(progress).dump();
    event(out, kInProgress, rest);
  }
  void delta(int, const Delta& delta, std::string& out) override {
    if (timings_) timed_ = ",\"timings\":" + running_.so_far(delta.n_tokens).dump();
    bool told = delta.tokens.empty();  // logprobs go with the first piece of text, or alone
    for (const AnswerPart& part : delta.parts) {
      open(part, out);
      if (part.kind == PartKind::call) continue;
      const bool text = part.kind == PartKind::text;
      append_delta(part.text, text && !told ? &delta.tokens : nullptr, out);
      told = told || text;
    }
    if (!told && !delta.parts.has(PartKind::call) && !delta.parts.has(PartKind::arguments)) {
      open({}, out);
      append_delta("", &delta.tokens, out);
    }
    AnswerParts copy = delta.parts;
    said_.append(copy);
  }
  void finish(int, const Ending& ending, std::string& out) override {
    reason_ = ending.reason;
    // Even where nothing was said: whoever sends the items back sends the turn that is kept.
    if (!said_.has(PartKind::call)) open({}, out);
    close(out);
  }
  void end(const UsageTotals& usage, std::string& out) override {
    std::string body = begin_response(end_status()) + items_ + end_response(usage_object(usage));
    const std::string timed = timings_ ? ",\"timings\":" + timings_of(usage).dump() : "";
    event(out, "response." + std::string(end_status()), ",\"response\":" + body + timed);
    if (keep_.store != nullptr) keep(std::move(body));
  }
  void error(const HttpError& error, std::string& out) override {
    const std::string body = error_body(error);
    std::string rest = ",\"code\":";
    append_json_string(rest, error.code);
    rest += ",\"message\":";
    append_json_string(rest, error.message);
    rest += ",\"param\":null,";
    event(out, "error", rest + body.substr(1, body.size() - 2));
  }
  bool keeps_all() const override { return true; }
  int64_t* n_events() override { return &n_events_; }
  Pieces body(std::vector<ChoiceResult> choices, const UsageTotals& usage) override {
    const auto choice = std::make_shared<const ChoiceResult>(std::move(choices[0]));
    const AnswerParts& parts = choice->whole.parts;
    reason_ = choice->ending.reason;
    Pieces out;
    out.add(begin_response(end_status()));
    bool told = false;
    for (const AnswerPart& part : parts) add_part(part, choice, told, out);
    if (!parts.has(PartKind::text) && !parts.has(PartKind::call)) add_part({}, choice, told, out);
    if (kind_ == PartKind::call) out.add("\"}");
    out.add(end_response(usage_object(usage)));
    if (keep_.store == nullptr) return out;
    out.when_written(keep_.store->max_bytes(), [this, choice](std::string body) {
      said_ = choice->whole.parts;
      keep(std::move(body));
    });
    return out;
  }

 private:
  void event(std::string& out, std::string_view type, std::string_view rest) {
    append_sse_event(out, type, "",
                     "{\"type\":\"" + std::string(type) + "\",\"sequence_number\":" + std::to_string(n_events_++) +
                         std::string(rest) + "}");
  }
  std::string at_item() const {
    return ",\"item_id\":\"" + item_id() + "\",\"output_index\":" + std::to_string(n_items_);
  }
  // Its kind's first item has the answer's number, later ones a place too.
  std::string item_id() const {
    const std::string call = custom_ ? "ctc_" : "fc_";
    const std::string prefix = kind_ == PartKind::text ? "msg_" : kind_ == PartKind::call ? call : "rs_";
    const int nth = n_of_kind_[static_cast<size_t>(kind_)];
    return prefix + number_ + (nth > 0 ? "_" + std::to_string(nth) : "");
  }
  std::string response_so_far() const {
    return ",\"response\":" + begin_response("in_progress") + end_response(nullptr);
  }
  std::string_view end_status() const { return reason_ == FinishReason::length ? "incomplete" : "completed"; }

  // Of the item that is open: up to its content, up to its part's text, and the part as far as it came.
  std::string begin_item(std::string_view status) const {
    const bool message = kind_ == PartKind::text;
    std::string out = "{\"id\":\"" + item_id() + "\",\"type\":\"";
    if (kind_ == PartKind::call) {
      out += std::string(custom_ ? "custom_tool_call" : "function_call") + "\",\"status\":\"" + std::string(status) +
             "\",\"call_id\":\"" + call_id(ids_, 0, call_) + "\",\"name\":";
      append_json_string(out, name_);
      return out + (custom_ ? ",\"input\":\"" : ",\"arguments\":\"");
    }
    return out + (message ? "message" : "reasoning") + "\",\"status\":\"" + std::string(status) +
           (message ? "\",\"role\":\"assistant\"" : "\",\"summary\":[]") + ",\"content\":[";
  }
  std::string begin_part() const {
    return std::string("{\"type\":\"") + (kind_ == PartKind::text ? "output_text" : "reasoning_text") + "\",\"text\":";
  }
  std::string part() const {
    std::string out = begin_part();
    append_json_string(out, text_);
    if (kind_ == PartKind::text) out += ",\"annotations\":[],\"logprobs\":[" + logprobs_ + "]";
    return out + "}";
  }
  std::string whole_item(std::string_view status) const {
    if (kind_ != PartKind::call) return begin_item(status) + part() + "]}";
    std::string out = begin_item(status);
    append_call_text(out);
    return out + "\"}";
  }

  // Of a call that is open, the text of its arguments or of its input as JSON spells it.
  void append_call_text(std::string& out) const {
    if (custom_)
      out += text_;
    else
      append_json_text(out, text_);
  }
  void begin_call(const AnswerPart& part) {
    call_ = part.call;
    name_ = part.text;
    custom_ = part.kind == PartKind::call && is_custom_call(customs_, name_);
    input_ = {};
  }

  // A piece of a whole answer; logprobs are of its first message.
  void add_part(const AnswerPart& part, const std::shared_ptr<const ChoiceResult>& choice, bool& told, Pieces& out) {
    if (part.kind == PartKind::arguments) {
      if (custom_)
        add_input(part.text, choice, out);
      else
        out.add_json_text(part.text, choice);
      return;
    }
    if (is_open_) {
      if (kind_ == PartKind::call) out.add("\"}");
      out.add(",");
      ++n_of_kind_[static_cast<size_t>(kind_)];
    }
    is_open_ = true;
    kind_ = part.kind;
    begin_call(part);
    out.add(begin_item(end_status()));
    if (part.kind == PartKind::call) return;
    out.add(begin_part()).add_json_string(part.text, choice);
    if (part.kind == PartKind::text) {
      out.add(",\"annotations\":[],\"logprobs\":[");
      if (!std::exchange(told, true)) add_logprob_list(out, choice, tokenizer_);
      out.add("]");
    }
    out.add("}]}");
  }

  // The item that the part belongs to; a call begins one each time.
  void open(const AnswerPart& part, std::string& out) {
    if (part.kind == PartKind::arguments || (is_open_ && part.kind == kind_ && part.kind != PartKind::call)) return;
    close(out);
    is_open_ = true;
    kind_ = part.kind;
    begin_call(part);
    const std::string item = begin_item("in_progress") + (kind_ == PartKind::call ? "\"}" : "]}");
    event(out, "response.output_item.added", ",\"output_index\":" + std::to_string(n_items_) + ",\"item\":" + item);
    if (kind_ == PartKind::call) return;
    event(out, "response.content_part.added", at_item() + ",\"content_index\":0,\"part\":" + this->part());
  }
  std::string event_name(const char* end) const {
    const char* what = custom_ ? "custom_tool_call_input" : kDeltas[static_cast<size_t>(kind_)];
    return std::string("response.") + what + end;
  }
  void append_input_delta(const std::string& arguments, std::string& out) {
    const std::string told = input_.push(arguments);
    if (told.empty()) return;
    text_ += told;
    event(out, event_name(".delta"), at_item() + ",\"delta\":\"" + told + "\"" + timed_);
  }
  // `tokens` may be null.
  void append_delta(const std::string& text, const std::vector<TokenText>* tokens, std::string& out) {
    if (custom_) return append_input_delta(text, out);
    text_ += text;
    std::string rest = at_item() + (kind_ == PartKind::call ? ",\"delta\":" : ",\"content_index\":0,\"delta\":");
    append_json_string(rest, text);
    if (kind_ == PartKind::text) {
      std::string list = "[]";
      if (tokens != nullptr) {
        list.clear();
        append_logprob_list(list, *tokens, tokenizer_);
        if (!logprobs_.empty() && !tokens->empty()) logprobs_ += ',';
        logprobs_ += std::string_view(list).substr(1, list.size() - 2);
      }
      rest += ",\"logprobs\":" + list;
    }
    event(out, event_name(".delta"), rest + timed_);
  }
  void close(std::string& out) {
    if (!is_open_) return;
    const std::string done = event_name(".done");
    if (kind_ == PartKind::call) {
      std::string rest = at_item();
      if (!custom_) {
        rest += ",\"name\":";
        append_json_string(rest, name_);
      }
      rest += custom_ ? ",\"input\":\"" : ",\"arguments\":\"";
      append_call_text(rest);
      event(out, done, rest + "\"");
    } else {
      std::string rest = at_item() + ",\"content_index\":0,\"text\":";
      append_json_string(rest, text_);
      if (kind_ == PartKind::text) rest += ",\"logprobs\":[" + logprobs_ + "]";
      event(out, done, rest);
      event(out, "response.content_part.done", at_item() + ",\"content_index\":0,\"part\":" + part());
    }
    const std::string whole = whole_item(end_status());
    event(out, "response.output_item.done", ",\"output_index\":" + std::to_string(n_items_) + ",\"item\":" + whole);
    if (n_items_++ > 0) items_ += ',';
    items_ += whole;
    ++n_of_kind_[static_cast<size_t>(kind_)];
    text_.clear();
    logprobs_.clear();
    is_open_ = false;
  }

  // The response up to its items, and what comes behind them.
  std::string begin_response(std::string_view status) const {
    Json out = Json::Object{{"id", "resp_" + number_}, {"object", "response"}, {"created_at", created_}};
    out.set("status", status);
    out.set("error", nullptr);
    const bool cut = status == "incomplete";
    out.set("incomplete_details", cut ? Json(Json::Object{{"reason", "max_output_tokens"}}) : Json());
    std::string text = out.dump();
    text.pop_back();
    return text + ",\"output\":[";
  }
  std::string end_response(Json usage) const {
    Json out = echo_;
    out.set("usage", std::move(usage));
    return "]," + out.dump().substr(1);
  }
  static Json usage_object(const UsageTotals& u) {
    Json of_input = Json::Object{
        {"cached_tokens", u.n_cached},
        {"cached_tokens_by_tier",
         Json::Object{{"memory", u.n_cached - u.n_disk - u.n_remote}, {"disk", u.n_disk}, {"remote", u.n_remote}}}};
    if (u.n_dropped > 0) of_input.set("dropped_tokens", u.n_dropped);
    return Json::Object{{"input_tokens", u.n_prompt},
                        {"input_tokens_details", std::move(of_input)},
                        {"output_tokens", u.n_generated},
                        {"output_tokens_details", Json::Object{{"reasoning_tokens", u.n_reasoning}}},
                        {"total_tokens", u.n_prompt + u.n_generated}};
  }
  // REQUIRES said_.
  void keep(std::string body) {
    keep_.conversation.push_back(answer_message(said_, ids_, 0));
    keep_.store->put(
        "resp_" + number_, {keep_.asker.owner, keep_.asker.tenant},
        {std::move(body), Json(std::move(keep_.input)).dump(), Json(std::move(keep_.conversation)).dump()});
  }

  static constexpr const char* kInProgress = "response.in_progress";
  static constexpr const char* kDeltas[] = {"reasoning_text", "output_text", "function_call_arguments"};

  const Tokenizer& tokenizer_;
  const Json::Object echo_;
  KeepResponse keep_;
  const bool timings_;
  const std::vector<std::string> customs_;
  RunningTimings running_;
  std::string timed_;  // behind each piece of the answer; empty: nothing is
  const std::string number_;
  const uint64_t ids_;  // of the calls
  const int64_t created_;
  int64_t n_events_ = 0;
  bool is_open_ = false;  // an item, and of it:
  PartKind kind_ = PartKind::text;
  int call_ = 0;
  bool custom_ = false;                 // a call of a custom tool
  CustomInputReader input_;             // its input so far
  std::string name_, text_, logprobs_;  // the last: the entries of a list
  std::string items_;                   // that are closed, likewise
  int n_items_ = 0, n_of_kind_[3] = {};
  AnswerParts said_;
  FinishReason reason_ = FinishReason::stop;
};

}  // namespace

std::unique_ptr<ReplyWriter> make_response_writer(const ServeEnv& env, ResponseForm form, KeepResponse keep) {
  return std::make_unique<Writer>(env, std::move(form), std::move(keep));
}

}  // namespace quire
