#include "route/local_engines.h"

#include <poll.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "base/log.h"
#include "base/nanoseconds.h"
#include "base/thread.h"

namespace quire {
namespace {

constexpr int kSoonMs = 5, kTickMs = 200;
constexpr std::string_view kListening = "listening on ", kLatest = "latest";

struct LogLine {
  LogLevel level = LogLevel::info;
  std::string_view text;
};

// A line as our own log writes it, without its time and level; another one as it is.
LogLine read_log_line(std::string_view line) {
  constexpr std::string_view kForm = "0000-00-00T00:00:00.000Z ";
  constexpr std::pair<std::string_view, LogLevel> kLevels[] = {{"debug ", LogLevel::debug},
                                                               {"info ", LogLevel::info},
                                                               {"warning ", LogLevel::warn},
                                                               {"error ", LogLevel::error}};
  if (line.size() < kForm.size()) return {LogLevel::info, line};
  for (size_t i = 0; i < kForm.size(); ++i) {
    const bool digit = line[i] >= '0' && line[i] <= '9';
    if (kForm[i] == '0' ? !digit : line[i] != kForm[i]) return {LogLevel::info, line};
  }
  const std::string_view rest = line.substr(kForm.size());
  for (const auto& [name, level] : kLevels)
    if (rest.starts_with(name)) return {level, rest.substr(name.size())};
  return {LogLevel::info, rest};
}

}  // namespace

EngineLease::~EngineLease() {
  if (engines_ != nullptr) engines_->leave(ticket_);
}

bool EngineLease::waits() const {
  if (engines_ == nullptr) return false;
  const std::lock_guard lock(engines_->mu_);
  return engines_->table_.waits(ticket_);
}

bool EngineLease::holds() const {
  if (engines_ == nullptr) return false;
  const std::lock_guard lock(engines_->mu_);
  return engines_->table_.holds(ticket_);
}

void EngineLease::worked() const {
  if (engines_ == nullptr) return;
  const std::lock_guard lock(engines_->mu_);
  engines_->table_.worked(ticket_);
}

LocalEngines::LocalEngines(LocalOptions options, Clock& clock, Metrics& metrics, Changed changed)
    : options_(std::move(options)),
      clock_(clock),
      changed_(std::move(changed)),
      metrics_(metrics),
      table_(options_.rules, {}) {
  for (const LocalModel& model : options_.models) add(model);
  wake_fd_ = ::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  QR_CHECK(wake_fd_ >= 0, "no eventfd");
  thread_ = std::thread([this] { run(); });
}

void LocalEngines::add(LocalModel model) {  // REQUIRES mu_, or that there is no thread yet
  const MetricLabels of{{"model", model.name}};
  places_.emplace(model.name, table_.add(model.name, model.bytes));
  Slot& slot = slots_.emplace_back(std::move(model));
  slot.n_starts = &metrics_.counter("quire_engine_starts_total", "Engines that were started.", of);
  slot.n_failures = &metrics_.counter("quire_engine_failures_total",
                                      "Of them, those that did not come up or ended by themselves.", of);
}

LocalEngines::~LocalEngines() {
  stop(0);
  thread_.join();
  ::close(wake_fd_);
}

void LocalEngines::set_models(std::vector<LocalModel> models) {
  {
    const std::lock_guard lock(mu_);
    next_models_ = std::move(models);
  }
  wake();
}

// An engine of a file that is another one now goes as one of a file that is gone does, when nobody uses it.
void LocalEngines::take_models() {
  const std::lock_guard lock(mu_);
  if (!next_models_) return;
  std::vector<LocalModel> models = std::move(*std::exchange(next_models_, std::nullopt));
  std::vector<bool> there(slots_.size());
  for (LocalModel& model : models) {
    const auto at = places_.find(model.name);
    if (at == places_.end()) {
      if (slots_.size() < kMostModels) {
        log_info("model " + model.name + " is there");
        add(std::move(model));
      } else if (!std::exchange(told_of_most_, true)) {
        log_warn("route: no more models are taken: there were " + std::to_string(kMostModels) + " already");
      }
      continue;
    }
    const size_t i = at->second;
    if (i >= there.size()) continue;  // named twice
    there[i] = true;
    LocalModel& known = slots_[i].model;
    const bool is_same = known.path == model.path && known.bytes == model.bytes && known.modified_s == model.modified_s;
    if (!is_same || table_.models()[i].gone) {
      log_info("model " + model.name + (table_.models()[i].gone ? " is there again" : " has another file"));
      table_.renew(i, model.bytes);
    }
    known = std::move(model);
  }
  for (size_t i = 0; i < there.size(); ++i) {
    if (there[i] || table_.models()[i].gone) continue;
    log_info("model " + slots_[i].model.name + ": its file is gone");
    table_.remove(i);
  }
}

size_t LocalEngines::n_models() const {
  const std::lock_guard lock(mu_);
  return static_cast<size_t>(std::ranges::count_if(table_.models(), [](const auto& model) { return !model.gone; }));
}

const std::string& LocalEngines::name(size_t model) const {
  const std::lock_guard lock(mu_);
  return slots_[model].name;
}

std::optional<size_t> LocalEngines::find(std::string_view wanted) const {
  const std::lock_guard lock(mu_);
  auto at = places_.find(wanted);
  if (const size_t colon = wanted.rfind(':'); at == places_.end() && colon != std::string_view::npos) {
    at = places_.find(wanted.substr(0, colon));
    const std::string_view behind = wanted.substr(colon + 1);
    if (at != places_.end() && behind != kLatest) {
      const std::vector<std::string>& variants = slots_[at->second].model.variants;
      if (std::ranges::find(variants, behind) == variants.end()) return std::nullopt;
    }
  }
  if (at == places_.end() || table_.models()[at->second].gone) return std::nullopt;
  return at->second;
}

std::optional<size_t> LocalEngines::any() const {
  const std::lock_guard lock(mu_);
  std::optional<size_t> best, first;
  for (const auto& [name, place] : places_) {
    const EngineTable::Model& model = table_.models()[place];
    if (model.gone) continue;
    if (!first) first = place;
    if (model.state != EngineState::on || (best && model.used_ns <= table_.models()[*best].used_ns)) continue;
    best = place;
  }
  return best ? best : first;
}

LocalEngines::Entered LocalEngines::enter(size_t model, int64_t keep_alive_ms, Told told) {
  Entered out;
  {
    const std::lock_guard lock(mu_);
    const EngineTable::Entered entered = table_.enter(model, keep_alive_ms, clock_.now_ns());
    if (entered.ticket == 0) {
      out.refusal = Refusal{entered.refusal, entered.retry_ms};
      return out;
    }
    out.granted = entered.granted;
    out.lease = EngineLease(this, entered.ticket);
    if (!entered.granted) told_.emplace(entered.ticket, std::move(told));
  }
  if (!out.granted) wake();
  return out;
}

void LocalEngines::leave(EngineTable::Ticket ticket) {
  Told told;             // let go of without the lock
  bool matters = false;  // before the thread looks by itself
  {
    const std::lock_guard lock(mu_);
    if (const auto at = told_.find(ticket); at != told_.end()) {
      told = std::move(at->second);
      told_.erase(at);
    }
    const int64_t now = clock_.now_ns();
    table_.leave(ticket, now);
    matters = table_.is_wanted_by(now + kTickMs * kNsPerMs);
  }
  if (matters) wake();
}

void LocalEngines::unload(size_t model) {
  {
    const std::lock_guard lock(mu_);
    table_.unload(model);
  }
  wake();
}

std::optional<LocalEngines::Refusal> LocalEngines::load(size_t model) {
  {
    const std::lock_guard lock(mu_);
    const EngineTable::Entered entered = table_.load(model, clock_.now_ns());
    if (entered.ticket == 0) return Refusal{entered.refusal, entered.retry_ms};
  }
  wake();
  return std::nullopt;
}

LocalModelState LocalEngines::state_of(size_t model, int64_t now_ns) const {  // REQUIRES mu_
  const LocalModel& what = slots_[model].model;
  const EngineTable::Model& m = table_.models()[model];
  const int64_t until = table_.idle_until_ns(model);
  int64_t expires = until == kKeepForever ? kKeepForever : std::max<int64_t>(0, (until - now_ns) / kNsPerMs);
  if (m.n_users > 0) expires = m.keep_alive_ms;
  return {what.name, what.format, m.failure, what.bytes, what.modified_s,
          m.state,   expires,     m.gone,    what.shown, what.variants};
}

LocalModelState LocalEngines::state(size_t model) const {
  const std::lock_guard lock(mu_);
  return state_of(model, clock_.now_ns());
}

std::vector<LocalModelState> LocalEngines::states() const {
  const std::lock_guard lock(mu_);
  std::vector<LocalModelState> out;
  out.reserve(places_.size());
  const int64_t now = clock_.now_ns();
  for (const auto& [name, place] : places_) out.push_back(state_of(place, now));
  return out;
}

void LocalEngines::wake() const {
  const uint64_t one = 1;
  (void)!::write(wake_fd_, &one, sizeof one);
}

void LocalEngines::stop(int64_t ms) {
  {
    const std::lock_guard lock(mu_);
    const int64_t until = clock_.now_ns() + ms * kNsPerMs;
    end_until_ns_ = ending_ ? std::min(end_until_ns_, until) : until;
    ending_ = true;
  }
  wake();
  std::map<EngineTable::Ticket, Told> told;  // of those who wait still: let go of without the lock
  std::unique_lock lock(mu_);
  is_over_.wait(lock, [this] { return over_; });
  told.swap(told_);
  lock.unlock();
}

// ---- the thread ----------------------------------------------------------------------------------------------------

void LocalEngines::run() {
  set_thread_name("quire-engines");
  const auto ending = [this] {
    const std::lock_guard lock(mu_);
    return ending_;
  };
  while (!ending()) {
    take_models();
    step();
    wait();
    for (auto& [model, engine] : engines_) hear(model, engine);
    look_after(clock_.now_ns());
  }
  end_all();
  const std::lock_guard lock(mu_);
  over_ = true;
  is_over_.notify_all();
}

// What the table says is done, and those who waited are told.
void LocalEngines::step() {
  EngineTable::Step step;
  std::vector<std::pair<Told, EngineTable::Ticket>> granted;
  std::vector<std::pair<Told, std::pair<EngineTable::Ticket, std::string>>> refused;
  {
    const std::lock_guard lock(mu_);
    step = table_.step(clock_.now_ns());
    const auto take = [this](EngineTable::Ticket ticket) {
      const auto at = told_.find(ticket);
      Told told = at != told_.end() ? std::move(at->second) : Told();
      if (at != told_.end()) told_.erase(at);
      return told;
    };
    for (const auto ticket : step.granted) granted.emplace_back(take(ticket), ticket);
    for (auto& one : step.refused) refused.emplace_back(take(one.first), std::move(one));
  }
  if (!step.stop.empty()) {
    for (const size_t model : step.stop) tell_to_end(model);
    tell_changed();
  }
  for (const size_t model : step.start) start(model);
  for (const auto& [told, ticket] : granted)
    if (told) told(ticket, nullptr);
  for (const auto& [told, one] : refused) {
    const Refusal refusal{one.second, 1'000};
    if (told) told(one.first, &refusal);
  }
}

void LocalEngines::start(size_t model) {
  const LocalModel& what = slots_[model].model;
  slots_[model].n_starts->add();
  auto process = ChildProcess::start(what.command);
  if (!process) return fail_start(model, process.error().message);
  log_info("engine " + what.name + ": started, process " + std::to_string((*process)->pid()));
  Engine& engine = engines_[model];
  engine.process = std::move(*process);
  engine.until_ns = clock_.now_ns() + options_.start_ms * kNsPerMs;
}

void LocalEngines::fail_start(size_t model, const std::string& why) {
  slots_[model].n_failures->add();
  log_warn("engine " + slots_[model].model.name + ": " + why);
  const std::lock_guard lock(mu_);
  table_.failed(model, without_path(model, why), clock_.now_ns());
}

// Where models lie is nobody's who asks for one. A model in parts has files beside its own.
std::string LocalEngines::without_path(size_t model, std::string text) const {
  const auto replace = [&text](std::string_view what, std::string_view by) {
    for (size_t at = text.find(what); at != std::string::npos; at = text.find(what, at + by.size()))
      text.replace(at, what.size(), by);
  };
  const std::string& path = slots_[model].model.path;
  if (path.empty()) return text;
  replace(path, slots_[model].model.name);
  const std::string_view folder = std::string_view(path).substr(0, path.rfind('/') + 1);
  if (folder.size() > 1) replace(folder, "");
  return text;
}

void LocalEngines::tell_to_end(size_t model) {
  const auto at = engines_.find(model);
  if (at == engines_.end()) return;
  log_info("engine " + slots_[model].model.name + ": told to end");
  at->second.told = true;
  at->second.at.reset();
  at->second.until_ns = clock_.now_ns() + options_.stop_ms * kNsPerMs;
  at->second.process->signal(SIGTERM);
}

void LocalEngines::hear(size_t model, Engine& engine) {
  const std::string& name = slots_[model].model.name;
  engine.process->err().take([&](std::string_view line) {
    if (line.empty()) return;
    const LogLine said = read_log_line(line);
    log(said.level, "engine " + name + ": " + std::string(said.text));
    engine.last_line = said.text;
  });
  engine.process->out().take([&](std::string_view line) { hear_address(model, engine, line); });
}

void LocalEngines::hear_address(size_t model, Engine& engine, std::string_view line) {
  if (engine.at || engine.told || !line.starts_with(kListening)) return;
  auto spec = parse_worker(std::string(line.substr(kListening.size())));
  if (!spec) {
    engine.last_line = "says that it listens where nobody can ask it: " + std::string(line);
    return engine.process->signal(SIGKILL);
  }
  spec->model = slots_[model].model.name;
  engine.at = std::move(*spec);
  tell_changed();
  const std::lock_guard lock(mu_);
  table_.listens(model, clock_.now_ns());
}

// Those that have ended, and those whose time is over.
void LocalEngines::look_after(int64_t now_ns) {
  for (auto it = engines_.begin(); it != engines_.end();) {
    const size_t model = it->first;
    Engine& engine = it->second;
    ++it;  // bury() removes it
    if (const auto how = engine.process->ended()) {
      hear(model, engine);  // its last words
      bury(model, *how);
    } else if ((engine.told || !engine.at) && !engine.killed && now_ns >= engine.until_ns) {
      if (!engine.told)
        engine.last_line = "it did not listen within " + std::to_string(options_.start_ms) + " ms (model_start_ms)";
      engine.killed = true;
      engine.process->signal(SIGKILL);
    }
  }
}

void LocalEngines::bury(size_t model, const std::string& how) {
  const auto node = engines_.extract(model);
  const Engine& engine = node.mapped();
  if (engine.told) {
    log_info("engine " + slots_[model].model.name + ": ended");
    const std::lock_guard lock(mu_);
    return table_.ended(model);
  }
  if (!engine.at && lacked_room(model, engine)) return;
  fail_start(model, "it ended (" + how + ")" + (engine.last_line.empty() ? "" : ": " + engine.last_line));
  tell_changed();
}

// Whether it is to be tried again with fewer beside it.
bool LocalEngines::lacked_room(size_t model, const Engine& engine) {
  const std::string& words = slots_[model].model.no_room;
  if (words.empty() || engine.last_line.find(words) == std::string::npos) return false;
  const std::lock_guard lock(mu_);
  if (!table_.found_no_room(model)) return false;
  log_info("engine " + slots_[model].model.name + ": there is no room for it yet: others have to end first");
  return true;
}

void LocalEngines::tell_changed() {
  std::vector<WorkerSpec> listening;
  for (const auto& [model, engine] : engines_)
    if (engine.at) listening.push_back(*engine.at);
  changed_(listening);
}

void LocalEngines::wait() {
  std::vector<pollfd> fds{{wake_fd_, POLLIN, 0}};
  bool is_silent = false;  // it has closed what it could say something on: it ends
  for (auto& [model, engine] : engines_) {
    for (const PipeLines* pipe : {&engine.process->out(), &engine.process->err()})
      if (pipe->fd() >= 0) fds.push_back({pipe->fd(), POLLIN, 0});
    is_silent |= engine.process->err().fd() < 0;
  }
  int64_t next = 0;
  {
    const std::lock_guard lock(mu_);
    next = table_.next_ns();
  }
  const int64_t most_ms = is_silent ? kSoonMs : kTickMs;
  const int64_t ms = std::clamp<int64_t>((next - clock_.now_ns() + kNsPerMs - 1) / kNsPerMs, 0, most_ms);
  const bool for_ever = next == kKeepForever && engines_.empty();
  (void)::poll(fds.data(), fds.size(), for_ever ? -1 : static_cast<int>(ms));
  uint64_t n = 0;
  (void)!::read(wake_fd_, &n, sizeof n);
}

void LocalEngines::end_all() {
  for (auto& [model, engine] : engines_) {
    if (!engine.told) engine.process->signal(SIGTERM);
    engine.told = true;
  }
  while (!engines_.empty()) {
    bool late = false;
    {
      const std::lock_guard lock(mu_);
      late = clock_.now_ns() >= end_until_ns_;
    }
    if (late) return engines_.clear();  // kills them
    std::vector<pollfd> fds{{wake_fd_, POLLIN, 0}};
    (void)::poll(fds.data(), fds.size(), kSoonMs);
    uint64_t n = 0;
    (void)!::read(wake_fd_, &n, sizeof n);
    for (auto& [model, engine] : engines_) hear(model, engine);
    std::erase_if(engines_, [](auto& entry) { return entry.second.process->ended().has_value(); });
  }
}

}  // namespace quire
