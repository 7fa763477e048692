#include "route/model_watch.h"

#include <algorithm>
#include <chrono>
#include <exception>
#include <iterator>
#include <set>
#include <utility>

#include "base/log.h"
#include "base/thread.h"

namespace quire {
namespace {

bool is_same_file(const LocalModel& a, const LocalModel& b) {
  return a.path == b.path && a.bytes == b.bytes && a.modified_s == b.modified_s;
}

}  // namespace

ModelWatch::ModelWatch(const LocalOptions& options, Changed changed)
    : reread_(options.reread),
      show_(options.show),
      every_ms_(options.reread_ms),
      changed_(std::move(changed)),
      models_(options.models),
      thread_([this] { run(); }) {}

ModelWatch::~ModelWatch() {
  {
    const std::lock_guard lock(mu_);
    ending_ = true;
  }
  ends_.notify_all();
  thread_.join();
}

bool ModelWatch::ending() const {
  const std::lock_guard lock(mu_);
  return ending_;
}

void ModelWatch::run() {
  set_thread_name("quire-models");
  bool is_first = true;
  do {
    const bool is_other = !std::exchange(is_first, false) && look();
    if (show_all() || is_other) changed_(models_);
    std::unique_lock lock(mu_);
    if (ends_.wait_for(lock, std::chrono::milliseconds(every_ms_), [this] { return ending_; })) return;
  } while (reread_);
}

Result<std::vector<LocalModel>> ModelWatch::reread() const {
  try {
    return reread_();
  } catch (const std::exception& error) {
    return fail(Code::io, error.what());
  }
}

// Whether there are others than before.
bool ModelWatch::look() {
  auto found = reread();
  if (std::exchange(failed_, !found) != !found) {
    if (!found)
      log_warn("route: which models are there cannot be seen: " + found.error().message + "; those known stay");
    else
      log_info("route: which models are there is seen again");
  }
  if (!found) return false;
  std::map<std::string, LocalModel> looked;
  std::vector<LocalModel> next, kept;
  std::set<std::string> missed;
  bool is_other = false;
  for (LocalModel& known : models_) {
    if (std::ranges::find(*found, known.name, &LocalModel::name) != found->end()) continue;
    if (missed_.contains(known.name)) {
      is_other = true;
    } else {
      missed.insert(known.name);
      kept.push_back(std::move(known));  // until the next look misses it too
    }
  }
  for (LocalModel& model : *found) {
    const auto known = std::ranges::find(models_, model.name, &LocalModel::name);
    if (known != models_.end() && is_same_file(*known, model)) {
      known->changed_ns = model.changed_ns;
      next.push_back(std::move(*known));
      continue;
    }
    const auto before = looked_.find(model.name);
    const bool is_still = before != looked_.end() && is_same_file(before->second, model);
    if (!is_still) looked[model.name] = model;
    if (is_still) {
      is_other = true;
      next.push_back(std::move(model));
    } else if (known != models_.end()) {
      next.push_back(std::move(*known));  // until it is seen what becomes of it
    }
  }
  next.insert(next.end(), std::make_move_iterator(kept.begin()), std::make_move_iterator(kept.end()));
  missed_ = std::move(missed);
  looked_ = std::move(looked);
  models_ = std::move(next);
  return is_other;
}

// Whether more is known than before.
bool ModelWatch::show_all() {
  bool is_more = false;
  for (LocalModel& model : models_) {
    if (!show_ || !model.shown.empty() || ending()) continue;
    const auto before = untold_.find(model.name);
    if (before != untold_.end() && is_same_file(before->second, model) && before->second.changed_ns == model.changed_ns)
      continue;
    try {
      model.shown = show_(model);
    } catch (const std::exception& error) {
      log_warn("route: model " + model.name + " cannot be shown: " + error.what());
    }
    is_more |= !model.shown.empty();
    if (model.shown.empty()) untold_[model.name] = model;
  }
  std::erase_if(untold_, [&](const auto& one) {
    return std::ranges::find(models_, one.first, &LocalModel::name) == models_.end();
  });
  return is_more;
}

}  // namespace quire
