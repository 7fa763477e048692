#include "http/io_queue.h"

#include <gtest/gtest.h>

#include "http/stream.h"

namespace quire {
namespace {

class CountingQueue final : public IoQueue {
 public:
  void become_io_thread() { enter_io_thread(); }
  int n_wakes = 0;

 private:
  void post_wake() override { ++n_wakes; }
};

TEST(IoQueue, AStepWakesOnceHoweverMuchIsDirty) {
  const auto queue = std::make_shared<CountingQueue>();
  queue->wake();
  EXPECT_EQ(queue->n_wakes, 0);  // nothing to do
  std::vector<std::shared_ptr<Stream>> streams;
  streams.reserve(100);
  for (int i = 0; i < 100; ++i) streams.push_back(std::make_shared<Stream>(queue, 1000));
  for (int step = 1; step <= 3; ++step) {
    for (const auto& stream : streams) {
      stream->notify();
      stream->notify();
    }
    queue->wake();
    queue->wake();
    EXPECT_EQ(queue->n_wakes, step);
    IoQueue::Work work;
    queue->take(work);
    EXPECT_GT(work.woken_ns, 0);
    size_t n = 0;
    while (const auto one = work.dirty.pop()) {
      ASSERT_LT(n, streams.size());
      EXPECT_EQ(one, streams[n++]) << "each once, in order";
      StreamOutput output;
      std::static_pointer_cast<Stream>(one)->popped();
      std::static_pointer_cast<Stream>(one)->take(output);
      EXPECT_FALSE(output.head || output.complete || output.aborted);
    }
    EXPECT_EQ(n, streams.size());
  }
}

// A connection looks at its stream between, when its request is complete or its client has said the last: the stream
// stays where it is on the list, and whoever marks it then does not put it there a second time, which cut off the rest.
TEST(IoQueue, ALookBetweenLosesNobody) {
  const auto queue = std::make_shared<CountingQueue>();
  std::vector<std::shared_ptr<Stream>> streams;
  for (int i = 0; i < 4; ++i) streams.push_back(std::make_shared<Stream>(queue, 1000));
  for (int i = 0; i < 3; ++i) streams[static_cast<size_t>(i)]->notify();
  StreamOutput output;
  streams[0]->take(output);
  streams[0]->notify();
  streams[3]->notify();
  IoQueue::Work work;
  queue->take(work);
  for (const auto& stream : streams) EXPECT_EQ(work.dirty.pop(), stream) << "each once, in order";
  EXPECT_TRUE(work.dirty.empty());
  for (const auto& stream : streams) {
    stream->popped();
    stream->take(output);
    stream->notify();
  }
  queue->take(work);
  for (const auto& stream : streams) EXPECT_EQ(work.dirty.pop(), stream) << "and again";
}

TEST(IoQueue, TheIoThreadNeedsNoWake) {
  CountingQueue queue;
  queue.become_io_thread();
  queue.push([] {});
  queue.wake();
  EXPECT_EQ(queue.n_wakes, 0);
  EXPECT_TRUE(queue.has_work());
  IoQueue::Work work;
  queue.take(work);
  EXPECT_EQ(work.woken_ns, 0);
}

TEST(IoQueue, KeepsNothingOnceClosed) {
  const auto queue = std::make_shared<CountingQueue>();
  const auto stream = std::make_shared<Stream>(queue, 1000);
  stream->notify();
  EXPECT_GT(stream.use_count(), 1);
  queue->close();
  EXPECT_EQ(stream.use_count(), 1);
  const auto later = std::make_shared<Stream>(queue, 1000);
  later->send(200, {}, "x");
  later->post([] {});
  EXPECT_EQ(later.use_count(), 1);
}

TEST(Stream, RefusesAboveTheCapAndCallsTheProducerWhenThereIsRoom) {
  const auto queue = std::make_shared<CountingQueue>();
  const auto stream = std::make_shared<Stream>(queue, 100);
  int n_calls = 0;
  stream->set_producer([&](Reply&) { ++n_calls; });
  ASSERT_TRUE(stream->start_stream(200, {}));
  EXPECT_TRUE(stream->write(std::string(99, 'x')));
  EXPECT_TRUE(stream->write(std::string(99, 'x')));  // the last one may pass the cap
  EXPECT_FALSE(stream->write("x"));
  EXPECT_EQ(stream->unsent_bytes(), 198);
  StreamOutput output;
  stream->take(output);
  EXPECT_EQ(n_calls, 1);
  EXPECT_EQ(output.body.size(), 198u);
  stream->set_queued(51, 51);  // above half: not yet
  stream->take(output);
  EXPECT_EQ(n_calls, 1);
  stream->set_queued(50, 50);
  stream->take(output);
  EXPECT_EQ(n_calls, 2);
  stream->close(CloseReason::stalled);
  EXPECT_FALSE(stream->write("x"));
  queue->close();  // it holds the stream, which holds it
}

}  // namespace
}  // namespace quire
