//! Layouts as data.

use pannier_core::Layout;
use pannier_layout::DocumentLayout;

use crate::component::components;
use crate::registry::CustomOptions;

components! {
    /// A layout and its options.
    pub enum LayoutPolicy("layout", "") -> Box<dyn Layout>, |context, options| {
        plain {}
        options {
            /// Charges and counts text by a custom layout of a registry.
            "custom" => Custom(CustomOptions) = match context.registry {
                Some(registry) => registry.custom_layout(options)?,
                None => Box::new(DocumentLayout::uncounted()),
            };
        }
    }
}
