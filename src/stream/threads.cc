#include "stream/threads.h"

#include <unistd.h>

#include <system_error>

namespace tilelang::stream {

Threads::Threads(int64_t count) : process_(getpid()) {
  try {
    for (int64_t i = 1; i < count; ++i) threads_.emplace_back([this] { Work(); });
  } catch (const std::system_error&) {
    // The system gives no more threads: those there are share the work.
  }
}

Threads::~Threads() {
  if (getpid() != process_) {
    // A fork has no threads but the one that forked.
    for (std::thread& thread : threads_) thread.detach();
    return;
  }
  {
    std::lock_guard<std::mutex> lock(mutex_);
    closed_ = true;
  }
  begun_.notify_all();
  for (std::thread& thread : threads_) thread.join();
}

void Threads::Run(int64_t pieces, const std::function<void(int64_t)>& piece) {
  if (pieces <= 1 || threads_.empty()) {
    for (int64_t i = 0; i < pieces; ++i) piece(i);
    return;
  }
  std::unique_lock<std::mutex> lock(mutex_);
  piece_ = &piece;
  pieces_ = pieces;
  next_ = 0;
  begun_.notify_all();
  TakePieces(lock);
  ended_.wait(lock, [this] { return running_ == 0; });
  pieces_ = next_ = 0;
}

void Threads::Work() {
  std::unique_lock<std::mutex> lock(mutex_);
  while (!closed_) {
    TakePieces(lock);
    if (!closed_) begun_.wait(lock, [this] { return closed_ || next_ < pieces_; });
  }
}

void Threads::TakePieces(std::unique_lock<std::mutex>& lock) {
  while (next_ < pieces_) {
    const int64_t mine = next_++;
    ++running_;
    lock.unlock();
    (*piece_)(mine);
    lock.lock();
    if (--running_ == 0 && next_ == pieces_) ended_.notify_all();
  }
}

}  // namespace tilelang::stream
