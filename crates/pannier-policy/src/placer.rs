//! Placers as data.

use pannier_core::Placer;
use pannier_core::place::{
    ChronologicalPlacer, DocumentPlacer, PrefixStablePlacer, RankPlacer, SliceOrderPlacer,
    UShapedPlacer,
};

use crate::component::components;
use crate::registry::CustomOptions;

components! {
    /// A placer and its options.
    #[derive(Default)]
    pub enum PlacerPolicy("placer", "") -> Box<dyn Placer>, |context, options| {
        plain {
            /// Orders items by timestamp.
            #[default]
            "chronological" => Chronological = Box::new(ChronologicalPlacer);
            /// Places the highest scores at both ends.
            "u-shaped" => UShaped = Box::new(UShapedPlacer);
            /// Places the highest score first.
            "rank" => Rank = Box::new(RankPlacer);
            /// Places items of the previous prompt first, in its order, then the others by timestamp.
            "prefix-stable" | "stable" => PrefixStable =
                Box::new(PrefixStablePlacer::new(context.previous(), ChronologicalPlacer));
            /// Places passages document by document, in their order there.
            "document" => Document = Box::new(DocumentPlacer);
            /// Places items in the order in which the slicer took them.
            "slice-order" | "taken" => SliceOrder = Box::new(SliceOrderPlacer);
        }
        options {
            /// Places items by a custom placer of a registry.
            "custom" => Custom(CustomOptions) = match context.registry {
                Some(registry) => registry.custom_placer(options)?,
                None => Box::new(ChronologicalPlacer),
            };
        }
    }
}
