#include "serve/request_list.h"

#include <algorithm>
#include <unordered_map>

namespace quire {
namespace {

std::string number(int64_t n) { return std::to_string(n); }
std::string counted(int64_t n, const std::string& one, const std::string& more) {
  return number(n) + " " + (n == 1 ? one : more);
}

class Describer {
 public:
  explicit Describer(const RequestList& list) : list_(list) {
    for (const RequestView& view : list.engine.views) views_.emplace(view.id, &view);
    for (const RequestLine& line : list.lines)
      for (const RequestLine::Sequence& sequence : line.sequences)
        if (sequence.id != 0) names_.emplace(sequence.id, &line);
  }

  const RequestView* view(SeqId id) const {
    const auto at = views_.find(id);
    return at == views_.end() ? nullptr : at->second;
  }

  // `view` may be null.
  std::string why(const RequestLine& line, const RequestLine::Sequence& sequence, const RequestView* view) const {
    if (line.progress == RequestStage::queued)
      return "waits for a thread that reads its body; so do " + counted(list_.n_unread, "request", "requests");
    if (line.progress == RequestStage::read) return "its body is read and turned into tokens";
    if (line.progress == RequestStage::compiled) return "the grammar of its answer is compiled";
    if (sequence.over) return "its answer is complete and goes to its client";
    if (view == nullptr) return "has just come to the engine, which looks at it before its next step";
    return why(*view) + sent_back(*view) + ahead(*view);
  }

 private:
  std::string name(SeqId id) const {
    const auto at = names_.find(id);
    return at == names_.end() ? "another request" : "request " + at->second->id;
  }

  std::string why(const RequestView& v) const {
    const std::string steps = " in this step; it goes on in one of the next";
    switch (v.hold) {
      case Hold::none: return runs(v);
      case Hold::budget: return "others have the " + number(v.wanted) + " tokens" + steps;
      case Hold::step_time: return "more tokens would pass the target of the time that a step may take" + steps;
      case Hold::places:
        return "waits for a place: " + counted(v.wanted, "sequence runs", "sequences run") + ", which is the limit";
      case Hold::blocks:
      case Hold::states: return room(v);
      case Hold::pressure:
        return "KV blocks ran out in this step, so nobody new is let in; it is looked at in the next";
      case Hold::leader:
        return "waits for " + name(v.other) + ", which computes the same first " + number(v.wanted) +
               " tokens and has " + number(v.have) + " of them";
      case Hold::load:
        return v.wanted == 0
                   ? "waits for cached blocks that another request brings, or for the remote store to say what it has"
                   : "its cached blocks are brought from disk or the remote store: " + number(v.have) + " of " +
                         number(v.wanted) + " are here";
      case Hold::behind: return behind(v);
    }
    return "";
  }

  static std::string runs(const RequestView& v) {
    if (v.n_generated > 0)
      return "does not wait: it writes its answer, " + counted(v.n_generated, "token", "tokens") + " so far";
    return "does not wait: its prompt is computed, " + number(std::min(v.n_computed, v.n_prompt)) + " of " +
           counted(v.n_prompt, "token", "tokens") + " so far";
  }

  static std::string room(const RequestView& v) {
    const std::string what = v.hold == Hold::states ? "states" : "KV blocks";
    if (v.wanted == 0) return "waits for " + what;
    return "waits for " + number(v.wanted) + " " + what + ", of which " + number(v.have) + " are free or can be freed";
  }

  // What the first one waits for is what all behind it wait for.
  std::string behind(const RequestView& v) const {
    std::string out = "waits behind " + counted(v.wanted, "request", "requests") + " of the queue";
    const RequestView* first = view(v.other);
    if (first == nullptr || first->hold == Hold::behind) return out;
    return out + "; the first, " + name(v.other) + ": " + why(*first);
  }

  static std::string sent_back(const RequestView& v) {
    if (v.n_preempted == 0 || v.running) return "";
    const std::string times = v.n_preempted == 1 ? "once" : number(v.n_preempted) + " times";
    return v.sent_back == SentBack::for_turn
               ? "; it ran and was sent back " + times + ", the last time because it was another client's turn"
               : "; it ran and was sent back " + times + ", the last time because KV blocks ran out";
  }

  static std::string ahead(const RequestView& v) {
    if (v.running || v.n_ahead == 0) return "";
    return "; " + counted(v.n_ahead, "older request", "older requests") + " of its own client " +
           (v.n_ahead == 1 ? "is" : "are") + " here";
  }

  const RequestList& list_;
  std::unordered_map<SeqId, const RequestView*> views_;
  std::unordered_map<SeqId, const RequestLine*> names_;
};

Json describe(const Describer& describer, const RequestLine& line, size_t choice) {
  const RequestLine::Sequence sequence = line.sequences.empty() ? RequestLine::Sequence{} : line.sequences[choice];
  const RequestView* view = sequence.over ? nullptr : describer.view(sequence.id);
  Json out = Json::Object{{"id", line.id},
                          {"choice", static_cast<int64_t>(choice)},
                          {"endpoint", line.endpoint},
                          {"key", line.key.empty() ? Json() : Json(line.key)},
                          {"age_ms", line.age_ns / 1'000'000},
                          {"running", view != nullptr && view->running},
                          {"why", describer.why(line, sequence, view)}};
  if (view == nullptr) return out;
  out.set("prompt_tokens", static_cast<int64_t>(view->n_prompt));
  out.set("cached_tokens", static_cast<int64_t>(view->n_cached));
  out.set("computed_tokens", static_cast<int64_t>(view->n_computed));
  out.set("generated_tokens", static_cast<int64_t>(view->n_generated));
  out.set("priority", static_cast<int64_t>(view->priority));
  out.set("preemptions", static_cast<int64_t>(view->n_preempted));
  return out;
}

}  // namespace

Json describe_requests(RequestList list) {
  std::ranges::stable_sort(list.lines, std::ranges::greater(), &RequestLine::age_ns);
  const Describer describer(list);
  Json::Array data;
  int64_t n_left_out = 0;
  for (const RequestLine& line : list.lines) {
    for (size_t i = 0; i < std::max<size_t>(line.sequences.size(), 1); ++i) {
      if (data.size() < kMostListed)
        data.push_back(describe(describer, line, i));
      else
        ++n_left_out;
    }
  }
  const int64_t seen_ns = list.engine.seen_ns;
  return Json::Object{
      {"object", "list"},
      {"seen_ms_ago", seen_ns == 0 ? Json() : Json(std::max<int64_t>(list.now_ns - seen_ns, 0) / 1'000'000)},
      {"data", std::move(data)},
      {"left_out", n_left_out}};
}

}  // namespace quire
