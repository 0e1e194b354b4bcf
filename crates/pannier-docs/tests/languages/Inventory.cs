using System;
using System.Collections.Generic;

namespace Shop.Stock
{
    /// <summary>A kind of goods.</summary>
    public record Product(string Sku, decimal Price);

    public interface IInventory
    {
        int Count(string sku);
    }

    /// <summary>Counts the goods in a warehouse.</summary>
    public class Inventory : IInventory
    {
        private readonly Dictionary<string, int> counts = new();

        public Inventory(IEnumerable<string> skus)
        {
            foreach (var sku in skus)
            {
                counts[sku] = 0;
            }
        }

        public int Total { get; private set; }

        /// <summary>Returns the number of goods of a kind.</summary>
        public int Count(string sku)
        {
            return counts.TryGetValue(sku, out var count) ? count : 0;
        }

        [Obsolete("use Move")]
        public void Take(string sku, int amount)
        {
            if (Count(sku) < amount)
            {
                throw new InvalidOperationException($"only {Count(sku)} of {sku}");
            }
            counts[sku] -= amount;
            Total -= amount;
        }
    }
}
