// Engines of this machine, one process for each model, that are there while somebody asks for them. The one idea: one
// thread starts, hears and ends all of them, because a child ends with the thread that started it
// (base/child_process.h); which of them run says engine_table.h. A request holds a lease from when it asks for its
// model until it is answered, and no engine is told to end while one is held.
#pragma once
#include <condition_variable>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "base/child_process.h"
#include "base/clock.h"
#include "base/metrics.h"
#include "route/engine_table.h"
#include "route/worker.h"

namespace quire {

struct LocalModel {
  std::string name;
  int64_t bytes = 0;       // of its files
  int64_t modified_s = 0;  // since 1970
  int64_t changed_ns = 0;  // likewise, also of who may read them and of their folder
  std::string format;      // "gguf", "safetensors"
  ChildSpec command;       // a server that prints "listening on http://HOST:PORT" when it may be asked
  std::string path;        // nobody but the log is told of it
  std::string no_room;     // words of its last line where memory was what it had not enough of; empty: it has none
  std::string shown = {};  // what /api/show says of it, JSON; empty: nothing is known
  // Its learned prefixes and adapters, which are asked for as NAME:VARIANT.
  std::vector<std::string> variants = {};
};

struct LocalOptions {
  std::vector<LocalModel> models;  // with different names; none: there are no local engines
  // Of a thread of their own (model_watch.h), every `reread_ms`: all models that there are now, with different names;
  // and what /api/show says of one. Empty: what there is stays; nothing is known.
  std::function<Result<std::vector<LocalModel>>()> reread{};
  std::function<std::string(const LocalModel& model)> show{};
  int64_t reread_ms = 5'000;
  EngineRules rules;
  int64_t start_ms = 600'000;  // until it listens; then it is killed
  int64_t stop_ms = 60'000;    // from when it is told to end; then it is killed
};

// What is told of a model, for the lists.
struct LocalModelState {
  std::string name, format, failure;  // failure: of its last start, empty where there was none
  int64_t bytes = 0, modified_s = 0;
  EngineState state = EngineState::off;
  int64_t expires_ms = kKeepForever;  // from now, where nobody asks it
  bool gone = false;                  // its file is: it is in no list of what may be asked for
  std::string shown = {};
  std::vector<std::string> variants = {};
};

class LocalEngines;

// A request's hold on its model. Whoever lets go of it does not wait any more, or is done. Any thread, one at a time.
class EngineLease {
 public:
  EngineLease() = default;
  EngineLease(LocalEngines* engines, EngineTable::Ticket ticket) : engines_(engines), ticket_(ticket) {}
  EngineLease(EngineLease&& other) noexcept { swap(other); }
  EngineLease& operator=(EngineLease&& other) noexcept {
    EngineLease old(std::move(*this));
    swap(other);
    return *this;
  }
  ~EngineLease();

  EngineTable::Ticket ticket() const { return ticket_; }
  bool waits() const;   // for the engine
  bool holds() const;   // the engine is on, and the one that was granted
  void worked() const;  // it has answered well

 private:
  void swap(EngineLease& other) noexcept {
    std::swap(engines_, other.engines_);
    std::swap(ticket_, other.ticket_);
  }
  LocalEngines* engines_ = nullptr;
  EngineTable::Ticket ticket_ = 0;
};

class LocalEngines {
 public:
  // Why a request gets no engine, and when asking again makes sense; 0: it is not known to.
  struct Refusal {
    std::string why;
    int64_t retry_ms = 0;
  };
  // What became of one who waits: null, it may go on. On the thread of the engines: must not block.
  using Told = std::function<void(EngineTable::Ticket ticket, const Refusal* refusal)>;
  // The engines that listen now; a spec's model says whose it is. Called whenever that changes, on their thread.
  using Changed = std::function<void(const std::vector<WorkerSpec>& listening)>;
  struct Entered {
    EngineLease lease;
    bool granted = false;
    std::optional<Refusal> refusal;
  };

  // `clock` and `metrics` outlive it.
  LocalEngines(LocalOptions options, Clock& clock, Metrics& metrics, Changed changed);
  ~LocalEngines();  // stop(0)
  LocalEngines(const LocalEngines&) = delete;
  LocalEngines& operator=(const LocalEngines&) = delete;

  // What there is from now on, with different names. Models are known by places that stay what they are, also where
  // their files are gone; beyond kMostModels nothing new is taken. Any thread; their own does it.
  void set_models(std::vector<LocalModel> models);
  static constexpr size_t kMostModels = 4096;

  size_t n_models() const;  // whose files are there
  const std::string& name(size_t model) const;
  // By its name, or that with ":latest" or one of its variants behind ':'; none whose file is gone.
  std::optional<size_t> find(std::string_view name) const;
  // One that runs, the last used of several, else the first by name: for pages that belong to none. None: there is no
  // model.
  std::optional<size_t> any() const;

  // `keep_alive_ms` as EngineTable has it. `told` is called once where it neither is granted nor refused here, unless
  // the lease is let go of first; then it may be called still. Any thread.
  Entered enter(size_t model, int64_t keep_alive_ms, Told told);
  void unload(size_t model);
  std::optional<Refusal> load(size_t model);
  std::vector<LocalModelState> states() const;  // of all, by name
  LocalModelState state(size_t model) const;

  // Tells all to end and waits until they have, or kills them after `ms`; who waits is told nothing any more. A second
  // call from another thread with less time cuts the first one short.
  void stop(int64_t ms);

 private:
  friend class EngineLease;
  struct Slot {
    explicit Slot(LocalModel of) : name(of.name), model(std::move(of)) {}
    const std::string name;
    LocalModel model;  // changes with its file
    Counter *n_starts = nullptr, *n_failures = nullptr;
  };
  struct Engine {
    std::unique_ptr<ChildProcess> process;
    std::optional<WorkerSpec> at;  // where it listens
    std::string last_line;         // of its standard error
    int64_t until_ns = 0;          // it is killed, where it does not listen or has not ended by then
    bool told = false, killed = false;
  };

  void leave(EngineTable::Ticket ticket);
  LocalModelState state_of(size_t model, int64_t now_ns) const;
  void add(LocalModel model);
  void take_models();
  void run();
  void wake() const;
  void wait();
  void step();
  void start(size_t model);
  void tell_to_end(size_t model);
  void hear(size_t model, Engine& engine);
  void hear_address(size_t model, Engine& engine, std::string_view line);
  void look_after(int64_t now_ns);
  void bury(size_t model, const std::string& how);
  void fail_start(size_t model, const std::string& why);
  bool lacked_room(size_t model, const Engine& engine);
  void tell_changed();
  void end_all();
  std::string without_path(size_t model, std::string text) const;

  const LocalOptions options_;
  Clock& clock_;
  const Changed changed_;
  Metrics& metrics_;
  int wake_fd_ = -1;

  mutable std::mutex mu_;  // guards what follows
  // By place; changed by the thread alone, which reads them without the lock. None of them ever moves.
  std::deque<Slot> slots_;
  std::map<std::string, size_t, std::less<>> places_;   // by name
  std::optional<std::vector<LocalModel>> next_models_;  // what set_models() said
  bool told_of_most_ = false;
  EngineTable table_;
  std::map<EngineTable::Ticket, Told> told_;
  bool ending_ = false, over_ = false;
  int64_t end_until_ns_ = 0;
  std::condition_variable is_over_;

  std::map<size_t, Engine> engines_;  // of the thread
  std::thread thread_;                // last: it uses the others
};

}  // namespace quire
