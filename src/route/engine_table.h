// Which local engines run: who of those that wait for a model may go on, which engine is started, and which one has to
// end so that there is room. The one idea: whoever came first is served first, and an engine that has to go takes
// nobody new but finishes what it has, so no answer is cut and no model waits for ever behind one that is always busy.
// Pure: times are given, and what is to be done to processes is told, not done. Its owner guards it.
#pragma once
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "route/keep_alive.h"

namespace quire {

struct EngineRules {
  int64_t keep_alive_ms = 300'000;  // an engine that nobody asks
  int64_t n_engines = 3;            // at once
  int64_t bytes = 0;                // of their models together; 0: no bound
  int64_t n_waiting = 256;          // requests, for all models
  int64_t wait_ms = 600'000;        // a request, for its model
  int64_t rest_ms = 1'000;          // after a failure, twice as long each time,
  int64_t most_rest_ms = 30'000;    // but no longer
};

// off: there is no process. starting: it does not listen yet. on: it may be asked. ending: told to end, and still
// there.
enum class EngineState : uint8_t { off, starting, on, ending };
std::string_view name_of(EngineState state);

class EngineTable {
 public:
  using Ticket = uint64_t;  // of a request, from enter() to leave(); never 0
  // What became of those who waited, and what has to be done.
  struct Step {
    std::vector<size_t> start, stop;  // places of models: a process is to be started, or told to end
    std::vector<Ticket> granted;
    std::vector<std::pair<Ticket, std::string>> refused;  // and why; it has left
  };
  struct Entered {
    Ticket ticket = 0;  // 0: refused
    bool granted = false;
    std::string refusal;
    int64_t retry_ms = 0;  // with it
  };
  struct Model {
    std::string name;
    int64_t bytes = 0;
    EngineState state = EngineState::off;
    bool retiring = false;  // on, and takes nobody new
    int64_t n_users = 0, n_waiting = 0;
    int64_t keep_alive_ms = 0, used_ns = 0;      // of its last request
    int64_t n_failures = 0, rests_until_ns = 0;  // since it last answered
    std::string failure;                         // what the last one said; empty: it works, as far as is known
    uint64_t generation = 0;                     // of its process
    int64_t most_others = kKeepForever;          // engines beside it, until it is there
    bool unwanted = false;                       // to end as soon as nobody uses it, whatever its time
    bool outdated = false;                       // its engine is of an old file: as retiring, whoever asks
    int64_t engine_bytes = 0;                    // of the file that its engine was started with
    bool gone = false;                           // its file is: nobody is given it any more
  };

  // REQUIRES different names, here and in add().
  EngineTable(const EngineRules& rules, std::vector<std::pair<std::string, int64_t>> names_and_bytes);

  // One more; its place. Places stay what they are.
  size_t add(std::string name, int64_t bytes);
  // Its file is gone: who waits for it is refused unless its engine is about to come up, and that ends as soon as
  // nobody uses it.
  void remove(size_t model);
  // Its file is there, again or another one: what failed before may work now. An engine of the old one takes nobody new
  // and ends as soon as nobody uses it; who asks meanwhile waits for the new one.
  void renew(size_t model, int64_t bytes);

  // A request for the model at this place. It may go on at once, waits (step() tells of it), or is refused.
  // `keep_alive_ms`: how long the engine stays after its last request from when it is granted this one; −1: as before.
  Entered enter(size_t model, int64_t keep_alive_ms, int64_t now_ns);
  // It has ended, or does not wait any more.
  void leave(Ticket ticket, int64_t now_ns);
  // It ends as soon as nobody uses it, unless another request comes before.
  void unload(size_t model);
  // Somebody wants it there, without a request of his own: refused or not, as a request is; there is nothing to leave.
  Entered load(size_t model, int64_t now_ns);

  // What a process did. It listens; has answered well; could not be started or ended by itself, saying this; has ended
  // because it was told to.
  void listens(size_t model, int64_t now_ns);
  void worked(Ticket ticket);
  void failed(size_t model, const std::string& why, int64_t now_ns);
  // It could not be started for want of memory: its requests wait until fewer engines stand beside it. False, and
  // nothing has happened: there are none.
  bool found_no_room(size_t model);
  void ended(size_t model);

  // Call after each change and at next_ns().
  Step step(int64_t now_ns);
  // When something is due that only time brings; INT64_MAX: nothing.
  int64_t next_ns() const;
  // Whether what users do may give step() something to do by then: somebody waits, or an engine's time is over.
  bool is_wanted_by(int64_t until_ns) const;

  const std::vector<Model>& models() const { return models_; }
  // When it ends if nobody asks it any more; INT64_MAX: it is not on, is in use, or stays.
  int64_t idle_until_ns(size_t model) const { return idle_until_ns(models_[model]); }
  // Whether it waits; whether the engine that it was granted is still the same one, and on.
  bool waits(Ticket ticket) const;
  bool holds(Ticket ticket) const;

 private:
  struct Request {
    size_t model;
    int64_t keep_alive_ms;
    int64_t until_ns;         // while it waits
    uint64_t generation = 0;  // of the engine that it was granted; 0: it waits
    bool is_load = false;     // nobody's request: load()
  };
  using Requests = std::map<Ticket, Request>;

  void grant(Requests::iterator at, Step* step);
  void refuse_waiting(size_t model, const std::string& why);
  void refuse_late(int64_t now_ns, Step& step);
  void end_idle(int64_t now_ns, Step& step);
  void make_room(Step& step);
  void claim(size_t model, Step& step);
  bool fits(size_t model, int64_t n_gone, int64_t bytes_gone) const;
  int victim(size_t for_model, bool idle) const;
  void stop(size_t model, Step& step);
  void grant_waiting(Step& step);
  int64_t idle_until_ns(const Model& model) const;

  const EngineRules rules_;
  std::vector<Model> models_;
  Requests requests_;                                    // in the order in which they came
  std::vector<std::pair<Ticket, std::string>> refused_;  // by what came between two steps
  Ticket next_ticket_ = 1;
};

}  // namespace quire
