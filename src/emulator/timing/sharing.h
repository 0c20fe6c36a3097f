// Lines that the CTAs of a wave read in common, and the lines that L2 keeps for later waves.
#ifndef TILELANG_EMULATOR_TIMING_SHARING_H_
#define TILELANG_EMULATOR_TIMING_SHARING_H_

#include <cstdint>
#include <unordered_map>

#include "emulator/memory/global.h"

namespace tilelang::emulator {

// Estimates how clusters share lines of L2. Only a few clusters are timed, of many that read the
// same lines at the same time. Some clusters of the first wave are probed for the lines that they
// read first. From these lines follows how often a line of a buffer is read. A wave is the clusters
// that run at once; a persistent cluster does one round of its work in it.
class Sharing {
 public:
  struct Buffer {
    // Sums over the sampled part of the first wave: CTAs and clusters that read a line, and lines.
    // Half a line counts as a half, because HBM is read in pairs of sectors.
    double touches = 0, lines = 0, clusters = 0;
    double size = 0;  // bytes; 0: not known
    // Bytes that all CTAs have loaded so far, and in the first wave. Bytes of one wave count once.
    double loaded = 0, first = 0;
    // Lines that a later wave reads first, and how many of them the first wave has read.
    double seen = 0, repeated = 0;
    double share = 1;  // of what a wave loads, what has to come from HBM
    // CTAs that read the same line, of a wave; of a cluster.
    double sharers() const { return lines == 0 ? 1 : touches / lines; }
    double cluster_sharers() const { return clusters == 0 ? 1 : touches / clusters; }
  };

  // A CTA of the first wave reads sectors of a line (LineAccess); it is the `rank`-th one of its
  // cluster.
  void Note(uint64_t line, uint32_t sectors, uint64_t cluster, uint64_t rank);
  // A CTA of the second wave does.
  void Compare(uint64_t line);
  // `clusters` were asked, of a grid of so many waves; 1: each does all of its work itself.
  // `follows`: all were asked, and an SM has one of them, whose rounds of work can be told apart.
  void Extend(double clusters, double waves, bool follows, double l2_bytes,
              const GlobalMemory& memory);
  // Notes that the timed CTAs begin the next wave.
  void BeginWave();
  Buffer& Of(uint64_t line);
  // A cluster that is timed reads a line. It may begin the next round of its work.
  void Follow(Buffer& buffer, uint64_t line);
  // Notes that all CTAs together load this many bytes of the buffer, which the timed CTAs do not
  // have in L2. Returns the share that HBM has to send.
  double Load(Buffer& buffer, double bytes);
  // All together store so many bytes.
  void Store(double bytes) { stored_ += bytes; }
  // Returns the bytes that the first wave loads from HBM and later waves do not, of all CTAs.
  double once_bytes() const;
  // Bytes of all buffers that are read.
  double bytes() const { return bytes_; }

 private:
  // Decides which share of each buffer comes from HBM from now on.
  void Plan();
  double ShareOf(const Buffer& buffer) const;
  // Bytes of the buffer that a wave reads.
  double OfWave(const Buffer& buffer) const;
  // Returns whether lines stay in L2 until all other lines of the buffer have been read.
  bool Keeps(const Buffer& buffer) const;

  // The CTA that has read a line last, and the pairs of sectors that this CTA, its cluster, and all
  // CTAs have read.
  struct Readers {
    uint64_t cta = 0;
    uint32_t own = 0, of_cluster = 0, all = 0;
  };
  std::unordered_map<uint64_t, Readers> readers_;  // by line
  std::unordered_map<uint64_t, Buffer> buffers_;
  bool follows_ = false;
  double bytes_ = 0, l2_bytes_ = 0, stored_ = 0, waves_ = 1;
  double begun_ = 1;      // waves, or rounds of a persistent cluster
  double first_ = 0;      // lines of a cluster that was asked
  double elsewhere_ = 0;  // lines in a row that the first wave has not read first
  double compared_ = 0;   // lines of this round still to compare with the first round
  int until_plan_ = 0;
};

}  // namespace tilelang::emulator

#endif  // TILELANG_EMULATOR_TIMING_SHARING_H_
