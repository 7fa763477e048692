#include "route/engine_table.h"

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "base/nanoseconds.h"

namespace quire {
namespace {

constexpr int64_t kNever = std::numeric_limits<int64_t>::max();
constexpr const char* kGone = "its file is not there any more";

int64_t after(int64_t now_ns, int64_t ms) {
  return ms >= (kNever - now_ns) / kNsPerMs ? kNever : now_ns + ms * kNsPerMs;
}

bool takes_new(const EngineTable::Model& model) {
  return model.state == EngineState::on && !model.retiring && !model.outdated;
}

}  // namespace

std::string_view name_of(EngineState state) {
  constexpr std::string_view kNames[] = {"unloaded", "loading", "loaded", "unloading"};
  return kNames[static_cast<size_t>(state)];
}

EngineTable::EngineTable(const EngineRules& rules, std::vector<std::pair<std::string, int64_t>> names_and_bytes)
    : rules_(rules) {
  for (auto& [name, bytes] : names_and_bytes) add(std::move(name), bytes);
}

size_t EngineTable::add(std::string name, int64_t bytes) {
  Model& model = models_.emplace_back();
  model.name = std::move(name);
  model.bytes = bytes;
  model.keep_alive_ms = rules_.keep_alive_ms;
  return models_.size() - 1;
}

void EngineTable::remove(size_t index) {
  Model& model = models_[index];
  model.gone = true;
  unload(index);
  if (model.state != EngineState::starting) refuse_waiting(index, kGone);
}

void EngineTable::renew(size_t index, int64_t bytes) {
  Model& model = models_[index];
  model.outdated |= model.state == EngineState::starting || model.state == EngineState::on;
  model.gone = false;
  model.bytes = bytes;
  model.n_failures = model.rests_until_ns = 0;
  model.failure.clear();
}

EngineTable::Entered EngineTable::enter(size_t index, int64_t keep_alive_ms, int64_t now_ns) {
  Model& model = models_[index];
  Entered out;
  if (model.gone) {
    out.refusal = kGone;
    return out;
  }
  if (rules_.bytes > 0 && model.bytes > rules_.bytes) {
    out.refusal = "its " + std::to_string(model.bytes) + " bytes are more than " + std::to_string(rules_.bytes) +
                  ", what models may take together";
    return out;
  }
  if (model.state == EngineState::off && model.rests_until_ns > now_ns) {
    out.refusal = model.failure;
    out.retry_ms = (model.rests_until_ns - now_ns + kNsPerMs - 1) / kNsPerMs;
    return out;
  }
  const bool at_once = takes_new(model);
  int64_t n_waiting = 0;
  for (const Model& m : models_) n_waiting += m.n_waiting;
  if (!at_once && n_waiting >= rules_.n_waiting) {
    out.refusal = std::to_string(n_waiting) + " requests wait for a model already (n_waiting)";
    out.retry_ms = 1'000;
    return out;
  }
  out.ticket = next_ticket_++;
  const auto at = requests_.emplace(out.ticket, Request{index, keep_alive_ms, after(now_ns, rules_.wait_ms)}).first;
  ++model.n_waiting;
  model.unwanted = false;
  if (at_once) grant(at, nullptr);
  out.granted = at_once;
  return out;
}

void EngineTable::grant(Requests::iterator at, Step* step) {
  Model& model = models_[at->second.model];
  --model.n_waiting;
  if (at->second.is_load) {
    requests_.erase(at);
    return;
  }
  ++model.n_users;
  if (at->second.keep_alive_ms >= 0) model.keep_alive_ms = at->second.keep_alive_ms;
  at->second.generation = model.generation;
  if (step != nullptr) step->granted.push_back(at->first);
}

void EngineTable::leave(Ticket ticket, int64_t now_ns) {
  const auto at = requests_.find(ticket);
  if (at == requests_.end()) return;  // it was refused
  Model& model = models_[at->second.model];
  if (at->second.generation == 0) {
    --model.n_waiting;
  } else if (at->second.generation == model.generation) {
    --model.n_users;
    model.used_ns = now_ns;
  }
  requests_.erase(at);
}

void EngineTable::unload(size_t index) {
  Model& model = models_[index];
  if (model.state == EngineState::starting || model.state == EngineState::on) model.unwanted = true;
}

EngineTable::Entered EngineTable::load(size_t index, int64_t now_ns) {
  const Entered entered = enter(index, -1, now_ns);
  if (entered.granted)
    leave(entered.ticket, now_ns);
  else if (entered.ticket != 0)
    requests_.at(entered.ticket).is_load = true;
  return entered;
}

void EngineTable::listens(size_t index, int64_t now_ns) {
  Model& model = models_[index];
  if (model.state != EngineState::starting) return;
  model.state = EngineState::on;
  model.used_ns = now_ns;
  model.most_others = kNever;  // room may come
}

void EngineTable::worked(Ticket ticket) {
  if (!holds(ticket)) return;
  Model& model = models_[requests_.at(ticket).model];
  model.n_failures = 0;
  model.failure.clear();
}

// The first failure of one that has worked costs no rest: it may be a request that finds it gone. One that did not come
// up says so to all who wait for it.
void EngineTable::failed(size_t index, const std::string& why, int64_t now_ns) {
  Model& model = models_[index];
  const bool came_up = model.state == EngineState::on;
  model.state = EngineState::off;
  model.retiring = model.unwanted = model.outdated = false;
  model.most_others = kNever;
  model.n_users = 0;
  ++model.generation;  // who was granted it holds nothing
  model.keep_alive_ms = rules_.keep_alive_ms;
  model.failure = why;
  model.n_failures = came_up ? model.n_failures + 1 : std::max<int64_t>(model.n_failures, 1) + 1;
  const int64_t doubled = std::min<int64_t>(model.n_failures - 2, 30);
  const int64_t rest_ms = doubled < 0 ? 0 : std::min(rules_.most_rest_ms, rules_.rest_ms << doubled);
  model.rests_until_ns = after(now_ns, rest_ms);
  if (rest_ms > 0 || model.gone) refuse_waiting(index, why);
}

void EngineTable::refuse_waiting(size_t index, const std::string& why) {
  for (auto it = requests_.begin(); it != requests_.end();) {
    const auto at = it++;
    if (at->second.model != index || at->second.generation != 0) continue;
    --models_[index].n_waiting;
    if (!at->second.is_load) refused_.emplace_back(at->first, why);
    requests_.erase(at);
  }
}

bool EngineTable::found_no_room(size_t index) {
  Model& model = models_[index];
  const auto is_there = [](const Model& m) { return m.state != EngineState::off; };
  const int64_t n_others = std::count_if(models_.begin(), models_.end(), is_there) - 1;
  if (model.state != EngineState::starting || n_others <= 0) return false;
  model.state = EngineState::off;
  model.outdated = false;
  model.most_others = n_others - 1;
  if (model.gone) refuse_waiting(index, kGone);
  return true;
}

void EngineTable::ended(size_t index) {
  Model& model = models_[index];
  model.state = EngineState::off;
  model.outdated = false;
  model.keep_alive_ms = rules_.keep_alive_ms;
}

int64_t EngineTable::idle_until_ns(const Model& model) const {
  if (model.state != EngineState::on || model.n_users > 0) return kNever;
  if (model.retiring || model.outdated || (model.unwanted && model.n_waiting == 0)) return 0;
  return model.keep_alive_ms == kKeepForever ? kNever : after(model.used_ns, model.keep_alive_ms);
}

void EngineTable::stop(size_t index, Step& step) {
  Model& model = models_[index];
  QR_CHECK(model.state == EngineState::on && model.n_users == 0, "an engine in use is not told to end");
  model.state = EngineState::ending;
  model.retiring = model.unwanted = false;
  step.stop.push_back(index);
}

void EngineTable::refuse_late(int64_t now_ns, Step& step) {
  for (auto it = requests_.begin(); it != requests_.end();) {
    const auto at = it++;
    if (at->second.generation != 0 || at->second.until_ns > now_ns) continue;
    --models_[at->second.model].n_waiting;
    if (!at->second.is_load)
      step.refused.emplace_back(at->first,
                                "it was waited for " + std::to_string(rules_.wait_ms) + " ms (model_wait_ms)");
    requests_.erase(at);
  }
}

void EngineTable::end_idle(int64_t now_ns, Step& step) {
  for (size_t i = 0; i < models_.size(); ++i)
    if (idle_until_ns(models_[i]) <= now_ns) stop(i, step);
}

bool EngineTable::fits(size_t index, int64_t n_gone, int64_t bytes_gone) const {
  int64_t n = 1 - n_gone, bytes = models_[index].bytes - bytes_gone;
  for (const Model& model : models_) {
    if (model.state == EngineState::off) continue;
    ++n;
    bytes += model.engine_bytes;
  }
  return n <= rules_.n_engines && n - 1 <= models_[index].most_others && (rules_.bytes == 0 || bytes <= rules_.bytes);
}

// Least recently used, of those that nobody uses, or of those that are in use; −1: there is none.
int EngineTable::victim(size_t for_model, bool idle) const {
  int best = -1;
  for (size_t i = 0; i < models_.size(); ++i) {
    const Model& model = models_[i];
    if (i == for_model || !takes_new(model) || (model.n_users == 0) != idle) continue;
    if (best < 0 || model.used_ns < models_[static_cast<size_t>(best)].used_ns) best = static_cast<int>(i);
  }
  return best;
}

// Room for a model that is wanted: engines that nobody uses end, others take nobody new, as many as it takes.
void EngineTable::claim(size_t index, Step& step) {
  int64_t n_gone = 0, bytes_gone = 0;
  const auto goes = [&](const Model& model) {
    ++n_gone;
    bytes_gone += model.engine_bytes;
  };
  for (const Model& model : models_)
    if (model.state == EngineState::ending || model.retiring || model.outdated) goes(model);
  for (const bool idle : {true, false})
    while (!fits(index, n_gone, bytes_gone)) {
      const int i = victim(index, idle);
      if (i < 0) break;
      Model& model = models_[static_cast<size_t>(i)];
      goes(model);
      if (idle)
        stop(static_cast<size_t>(i), step);
      else
        model.retiring = true;
    }
}

// In the order in which requests came: the first for whom there is no room has all room that comes.
void EngineTable::make_room(Step& step) {
  for (Model& model : models_) model.retiring = false;
  for (auto& [ticket, request] : requests_) {
    Model& model = models_[request.model];
    if (request.generation != 0 || model.state == EngineState::starting || model.state == EngineState::on) continue;
    if (model.state == EngineState::ending) continue;  // until that one is gone
    if (!fits(request.model, 0, 0)) return claim(request.model, step);
    model.state = EngineState::starting;
    model.engine_bytes = model.bytes;
    ++model.generation;
    step.start.push_back(request.model);
  }
}

void EngineTable::grant_waiting(Step& step) {
  for (auto it = requests_.begin(); it != requests_.end();) {
    const auto at = it++;
    const Model& model = models_[at->second.model];
    if (at->second.generation == 0 && takes_new(model)) grant(at, &step);
  }
}

EngineTable::Step EngineTable::step(int64_t now_ns) {
  Step step;
  step.refused = std::exchange(refused_, {});
  refuse_late(now_ns, step);
  grant_waiting(step);  // first, so that an engine that came up is of use to those who waited before it has to go
  end_idle(now_ns, step);
  make_room(step);
  grant_waiting(step);  // of engines that need not go any more
  return step;
}

int64_t EngineTable::next_ns() const {
  int64_t out = refused_.empty() ? kNever : 0;
  for (const Model& model : models_) out = std::min(out, idle_until_ns(model));
  for (const auto& [ticket, request] : requests_)
    if (request.generation == 0) out = std::min(out, request.until_ns);
  return out;
}

bool EngineTable::is_wanted_by(int64_t until_ns) const {
  return std::any_of(models_.begin(), models_.end(),
                     [&](const Model& m) { return m.n_waiting > 0 || idle_until_ns(m) <= until_ns; });
}

bool EngineTable::waits(Ticket ticket) const {
  const auto at = requests_.find(ticket);
  return at != requests_.end() && at->second.generation == 0;
}

bool EngineTable::holds(Ticket ticket) const {
  const auto at = requests_.find(ticket);
  if (at == requests_.end() || at->second.generation == 0) return false;
  const Model& model = models_[at->second.model];
  return model.state == EngineState::on && model.generation == at->second.generation;
}

}  // namespace quire
