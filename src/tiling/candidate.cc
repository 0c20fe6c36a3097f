#include "tiling/candidate.h"

#include "tiling/retile.h"

namespace tilelang::tiling {

std::string Text(const TileForm& form) {
  std::string text = Text(form.tile);
  if (form.pairs) text += " in pairs";
  if (form.parts > 1) text += " by clusters of " + std::to_string(form.parts);
  return text;
}

}  // namespace tilelang::tiling
