#include "serve/call_plans.h"

#include <utility>

#include "serve/tool_grammar.h"

namespace quire {
namespace {

void append(std::string& key, std::string_view part) {
  key += std::to_string(part.size());
  key += ':';
  key += part;
}

// All that a plan is made of, its errors' names included. Parts say how long they are, so none reads as another.
std::string key_of(const Tools& tools, const MaybeGrammar& document) {
  std::string key{tools.required ? 'r' : '-', tools.only_one ? '1' : '-'};
  append(key, tools.text);
  for (const Tools::Source& source : tools.sources) {
    key += source.strict ? 's' : '-';
    key += source.has_parameters ? 'p' : '-';
    append(key, source.parameters_field);
    if (source.input) {
      key += 'i';
      append(key, source.input->source.written());
      append(key, source.input->field);
    }
  }
  for (const std::string& name : tools.names) append(key, name);
  if (document) {
    key += 'd';
    append(key, document->source.written());
    append(key, document->field);
  }
  return key;
}

// About: the rules hold kinds of the arguments, which are no more than their schemas.
int64_t bytes_of(const std::string& key, const CallPlan& plan) {
  size_t n = 1024 + 2 * key.size() + plan.wanted.source.text.size();
  for (const WantedGrammar::Part& part : plan.wanted.parts) n += 256 + part.source.text.size() + part.field.size();
  return static_cast<int64_t>(n);
}

}  // namespace

ApiResult<std::shared_ptr<const CallPlan>> CallPlans::get(const Tools& tools,
                                                          const ToolFormat& format,
                                                          MaybeGrammar document) {
  std::string key = key_of(tools, document);
  if (auto found = find(key)) return found;
  const bool or_document = document.has_value();
  QR_TRY_VOID(add_call_grammar(tools, *format.form, document));
  auto plan = std::make_shared<const CallPlan>(CallPlan{std::move(*document), call_rules(tools, format, or_document)});
  keep(std::move(key), plan);
  return plan;
}

std::shared_ptr<const CallPlan> CallPlans::find(const std::string& key) {
  const std::lock_guard lock(mu_);
  const auto found = by_key_.find(key);
  if (found == by_key_.end()) return nullptr;
  ++n_found_;
  entries_.splice(entries_.begin(), entries_, found->second);
  return found->second->plan;
}

// One that is larger than all that may be held is not kept. Two threads may have made the same one.
void CallPlans::keep(std::string key, const std::shared_ptr<const CallPlan>& plan) {
  const int64_t bytes = bytes_of(key, *plan);
  std::list<Entry> dropped;  // let go of without the lock
  const std::lock_guard lock(mu_);
  ++n_made_;
  if (bytes > max_bytes_ || by_key_.contains(key)) return;
  entries_.push_front({std::move(key), plan, bytes});
  try {
    by_key_.emplace(entries_.front().key, entries_.begin());
  } catch (...) {
    entries_.pop_front();
    throw;
  }
  bytes_ += bytes;
  while (bytes_ > max_bytes_ || entries_.size() > kMaxEntries) {
    const auto last = std::prev(entries_.end());
    by_key_.erase(last->key);
    bytes_ -= last->bytes;
    dropped.splice(dropped.begin(), entries_, last);
  }
}

CallPlans::Stats CallPlans::stats() const {
  const std::lock_guard lock(mu_);
  return {n_made_, n_found_, static_cast<int64_t>(entries_.size()), bytes_};
}

}  // namespace quire
