// Threads that share the pieces of one piece of work.
#ifndef TILELANG_STREAM_THREADS_H_
#define TILELANG_STREAM_THREADS_H_

#include <sys/types.h>

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

namespace tilelang::stream {

/*! Threads that wait for work; one caller at a time uses them. */
class Threads {
 public:
  /*! Starts `count - 1` threads: the caller is one of them. Fewer if the system gives no more. */
  explicit Threads(int64_t count);
  ~Threads();
  Threads(const Threads&) = delete;
  Threads& operator=(const Threads&) = delete;

  int64_t count() const { return static_cast<int64_t>(threads_.size()) + 1; }

  /*! Calls `piece(i)` for each i below `pieces`, in any order, and returns after the last one. */
  void Run(int64_t pieces, const std::function<void(int64_t)>& piece);

 private:
  void Work();
  void TakePieces(std::unique_lock<std::mutex>& lock);

  const pid_t process_;
  std::mutex mutex_;
  std::condition_variable begun_, ended_;
  const std::function<void(int64_t)>* piece_ = nullptr;
  int64_t pieces_ = 0, next_ = 0, running_ = 0;
  bool closed_ = false;
  std::vector<std::thread> threads_;
};

}  // namespace tilelang::stream

#endif  // TILELANG_STREAM_THREADS_H_
