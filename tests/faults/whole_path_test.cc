// One request after another through a whole server, each with one thing failing: the n-th allocation of the threads
// that serve it, for n = 1, 2, 3, … until a run sees none fail, alone and with all that follow; and the n-th call of
// its socket, by an error or by taking a single byte. Each ends, with an answer or a closed connection; somebody who
// streams beside it gets every byte; afterwards nothing of it is left.
#include <gtest/gtest.h>

#include <cerrno>
#include <cstdlib>

#include "base/sanitized.h"
#include "tests/faults/requests.h"
#include "tests/faults/world.h"

namespace quire {
namespace {

// Every n with QUIRE_TEST_ALL; otherwise the first ones, and then fewer and fewer.
int64_t next(int64_t n, int64_t one_in) {
  static const bool all = std::getenv("QUIRE_TEST_ALL") != nullptr && !kSanitized;
  return all ? n + 1 : n + 1 + n / (kSanitized ? std::max<int64_t>(1, one_in / 4) : one_in);
}

std::string bytes_of(const Tried& what, const std::string& field = "") {
  std::string out = what.method + " " + what.path + " HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer victim\r\n" + field;
  if (!what.body.empty()) out += "Content-Type: application/json\r\n";
  out += "Connection: close\r\nContent-Length: " + std::to_string(what.body.size()) + "\r\n\r\n";
  return out + what.body;
}

bool says(const Got& got, std::string_view text) {
  return got.body.find(text) != std::string::npos || got.head.find(text) != std::string::npos;
}

class WholePath : public testing::Test {
 protected:
  static void SetUpTestSuite() { world_ = std::make_unique<FaultWorld>(); }
  static void TearDownTestSuite() { world_ = nullptr; }
  void TearDown() override {
    allocation_fault.disarm();
    socket_fault.disarm();
    world_->neighbour().finish();
    EXPECT_EQ(world_->neighbour().wrong(), "");
    EXPECT_TRUE(eventually([] { return world_->gauge("quire_http_received_held_bytes") == 0; }));
    EXPECT_TRUE(eventually([] { return world_->gauge("quire_http_unsent_held_bytes") == 0; }));
    EXPECT_EQ(world_->left(), "");
    EXPECT_EQ(world_->gauge("quire_answers_held_bytes"), 0);
    const EngineStats stats = world_->engine().stats();
    EXPECT_EQ(stats.n_running, 0);
    EXPECT_EQ(stats.n_free_blocks + stats.n_cached_blocks, stats.n_blocks);
  }
  Got ask(const Tried& what, Fault* fault, int64_t n, bool and_after) {
    hit_ = false;
    for (Fault* none : {&allocation_fault, &socket_fault}) none->arm(0, false);
    return ask_once(
        world_->port(), bytes_of(what),
        [&] {
          if (fault != nullptr) fault->arm(n, and_after);
        },
        [&] { hit_ = fault != nullptr && fault->disarm(); });
  }
  // Waits until it is as if nobody had asked.
  static void expect_nothing_left() {
    std::string left;
    const bool gone = eventually([&] { return (left = world_->left()).empty(); }, 10'000);
    ASSERT_TRUE(gone) << left;
    ASSERT_EQ(world_->neighbour().wrong(), "");
  }
  // With the n-th failing, for every n; `judge` says whether an answer is right.
  template <class Judge>
  void try_all(const Tried& what, Fault& fault, bool and_after, const Judge& judge) {
    const int64_t one_in = and_after ? 3 : 6;
    int64_t n = 1;
    expect_nothing_left();
    for (bool hit = true; hit; n = next(n, one_in)) {
      ASSERT_LT(n, 50'000);
      world_->neighbour().stream_on();
      const Got got = ask(what, &fault, n, and_after);
      hit = hit_;
      ASSERT_FALSE(got.hangs) << n;
      judge(got, hit);
      expect_nothing_left();
      if (HasFailure()) {
        ADD_FAILURE() << "number " << n << (and_after ? " and all after it" : "") << ": " << got.head
                      << got.body.substr(0, 1000);
        return;
      }
    }
    EXPECT_GT(n, 2) << "nothing failed";
  }
  // An answer that says that there is no memory, a cut one, or the right one.
  void try_without_memory(const Tried& what) {
    SCOPED_TRACE(what.method + " " + what.path + " " + what.body);
    ask(what, nullptr, 0, false);  // what is made once
    const Got wanted = ask(what, nullptr, 0, false);
    ASSERT_TRUE(wanted.whole) << wanted.head << wanted.body;
    const std::string right = essence(what, wanted.body);
    const bool volatile_body = what.path == "/slots" || what.path == "/api/ps";
    for (const bool and_after : {false, true}) {
      int n_refused = 0;
      try_all(what, allocation_fault, and_after, [&](const Got& got, bool hit) {
        const bool refused = got.whole && got.status == 503 && says(got, "Retry-After: ") && says(got, "out of memory");
        const bool told = got.whole && got.status == wanted.status && says(got, "out of memory");
        const bool as_ever = got.whole && got.status == wanted.status &&
                             (volatile_body || right.empty() || essence(what, got.body) == right);
        EXPECT_TRUE(as_ever || (hit && (refused || told || !got.whole)));
        n_refused += refused ? 1 : 0;
      });
      EXPECT_GT(n_refused, 0);
      if (HasFailure()) return;
    }
  }
  // Short reads and writes change nothing; whatever ends a connection ends that one.
  void try_with_socket(const Tried& what) {
    SCOPED_TRACE(what.method + " " + what.path + " " + what.body);
    const Got wanted = ask(what, nullptr, 0, false);
    ASSERT_TRUE(wanted.whole) << wanted.head << wanted.body;
    const std::string right = essence(what, wanted.body);
    const bool volatile_body = what.path == "/slots" || what.path == "/api/ps";
    for (const int error : {0, EAGAIN, EINTR, EPIPE, ECONNRESET, ENOBUFS}) {
      socket_errno = error;
      const bool harmless = error == 0 || error == EAGAIN || error == EINTR;
      for (const bool and_after : {false, true}) {
        if (and_after && (error == EAGAIN || error == EINTR)) continue;  // for ever: a client that does nothing
        try_all(what, socket_fault, and_after, [&](const Got& got, bool hit) {
          const bool as_ever = got.whole && got.status == wanted.status &&
                               (volatile_body || right.empty() || essence(what, got.body) == right);
          EXPECT_TRUE(as_ever || (hit && !harmless && !got.whole)) << error;
        });
        if (HasFailure()) return;
      }
    }
  }

  static std::unique_ptr<FaultWorld> world_;
  bool hit_ = false;
};
std::unique_ptr<FaultWorld> WholePath::world_;

constexpr const char* kResumable = "x-quire-resumable: 1\r\n";

// The value of a field of an answer's head; empty where there is none.
std::string field_of(const Got& got, const std::string& name) {
  const size_t at = got.head.find("\r\n" + name + ": ");
  if (at == std::string::npos) return "";
  const size_t begin = at + name.size() + 4;
  return got.head.substr(begin, got.head.find("\r\n", begin) - begin);
}

TEST_F(WholePath, WithoutMemoryARequestThatGeneratesEndsAndNothingElse) {
  for (const Tried& what : generating_requests()) {
    try_without_memory(what);
    if (HasFailure()) return;
  }
}

TEST_F(WholePath, WithoutMemoryARequestThatNeedsNoEngineEndsAndNothingElse) {
  for (const Tried& what : plain_requests()) {
    try_without_memory(what);
    if (HasFailure()) return;
  }
}

// A stream that its client takes up again is either gone on with or waits for the next try, whatever there is no memory
// for; it never belongs to a connection that does not have it.
TEST_F(WholePath, WithoutMemoryToTakeItUpAStreamWaits) {
  const Tried begin{"POST", "/v1/completions", R"({"prompt":"the cat","seed":7,"max_tokens":12,"stream":true})"};
  for (const bool and_after : {false, true}) {
    int64_t n = 1;
    for (bool hit = true; hit; ++n) {
      ASSERT_LT(n, 1000);
      const Got first = ask_once(world_->port(), bytes_of(begin, kResumable), [] {}, [] {});
      const std::string name = field_of(first, "x-quire-stream");
      ASSERT_FALSE(name.empty()) << first.head << first.body;
      ASSERT_TRUE(first.whole);
      expect_nothing_left();  // or the next one may be another thread's
      const Tried again{"GET", "/v1/streams/" + name + "?after=0", ""};
      const Got taken = ask(again, &allocation_fault, n, and_after);
      hit = hit_;
      ASSERT_FALSE(taken.hangs) << n;
      ASSERT_TRUE(taken.whole ? taken.body == first.body || (hit && taken.status == 503) : hit)
          << n << ": " << taken.head << taken.body;
      expect_nothing_left();
      const Got next = ask(again, nullptr, 0, false);
      ASSERT_TRUE(next.whole) << n << ": " << next.head;
      ASSERT_EQ(next.body, first.body) << n;
      ASSERT_EQ(ask({"DELETE", "/v1/streams/" + name, ""}, nullptr, 0, false).status, 200) << n;
      expect_nothing_left();
      if (HasFailure()) return;
    }
    EXPECT_GT(n, 5);
  }
}

TEST_F(WholePath, ASocketThatFailsEndsItsOwnRequest) {
  const std::vector<Tried> all = generating_requests();
  for (const size_t i : {size_t{0}, size_t{1}, size_t{3}, size_t{4}}) {
    try_with_socket(all[i]);
    if (HasFailure()) return;
  }
  for (const Tried& what : {Tried{"GET", "/metrics", ""}, Tried{"POST", "/tokenize", R"({"content":"the cat"})"}}) {
    try_with_socket(what);
    if (HasFailure()) return;
  }
}

}  // namespace
}  // namespace quire
