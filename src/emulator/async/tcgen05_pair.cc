#include "emulator/async/tcgen05_pair.h"

#include <string>

#include "emulator/core/function_decoder.h"

namespace tilelang::emulator {

bool TakeCtaGroup(Decoder& d) {
  const std::string group = d.mods.TakePrefix("cta_group::");
  if (group != "1" && group != "2") d.Illegal("tcgen05 needs .cta_group::1 or .cta_group::2");
  const int ctas = group[0] - '0';
  int& of_kernel = d.function().kernel().cta_group;
  if (of_kernel != 0 && of_kernel != ctas) {
    d.Illegal(
        "all tcgen05 instructions of a kernel have the same .cta_group, and there is one of " +
        std::to_string(of_kernel));
  }
  of_kernel = ctas;
  return ctas == 2;
}

Cta& PeerOf(const Issuer& issuer) {
  Cluster& cluster = issuer.cta->cluster;
  const size_t peer = issuer.cta->rank ^ 1;
  if (peer < cluster.ctas.size()) return *cluster.ctas[peer];
  Fail(issuer, "cta-pair",
       ".cta_group::2 needs a pair of CTAs, but rank " + std::to_string(issuer.cta->rank) +
           " of a cluster of " + std::to_string(cluster.ctas.size()) +
           " has no peer; launch clusters of an even number of CTAs");
}

std::vector<Cta*> CtasOf(const Issuer& issuer, bool pair) {
  Cta* own = issuer.cta->cluster.ctas[issuer.cta->rank].get();
  if (!pair) return {own};
  Cta& peer = PeerOf(issuer);
  if (peer.live_threads == 0) {
    Fail(issuer, "cta-pair",
         "the peer CTA, rank " + std::to_string(peer.rank) +
             " of the cluster, has exited; it must live while .cta_group::2 works on it");
  }
  if (own->rank % 2 == 0) return {own, &peer};
  return {&peer, own};
}

Flow AwaitPeer(Warp& w, const Issuer& issuer, const char* what) {
  const Cta& peer = PeerOf(issuer);
  if (peer.live_threads == 0) {
    Fail(issuer, "cta-pair",
         "the peer CTA, rank " + std::to_string(peer.rank) +
             " of the cluster, exited without its " + what +
             ": with .cta_group::2 one warp of each CTA executes it");
  }
  WaitInfo info;
  info.object = what;
  info.describe = [](const Warp& warp, const WaitInfo&) {
    return "a warp of the peer CTA, rank " + std::to_string(warp.cta.rank ^ 1) +
           " of the cluster, has to execute it, too";
  };
  return w.WaitOn(info);
}

}  // namespace tilelang::emulator
